// deploy/ without Docker or systemd: the steps of the Dockerfile and of the unit are run in their
// order on a copy of the tree, the files they name exist, and what they start is healthy.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { findTool } from '../testkit/promtool.ts'
import { sluice } from '../testkit/server.ts'
import { isSlice } from '../testkit/slice.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

const folder = join(root, 'deploy')
const read = (name: string) => readFileSync(join(folder, name), 'utf8')
const products = ['rpc', 'websocket', 'grpc', 'metrics', 'tpu', 'shredstream', 'indexer']
const anyPorts = products.map((product) => `--${product}.port=0`)

interface Step {
  readonly word: string
  readonly rest: string
}

const steps: readonly Step[] = read('Dockerfile')
  .replaceAll('\\\n', ' ')
  .split('\n')
  .filter((line) => /^[A-Z]/.test(line))
  .map((line) => {
    const [, word = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? []
    return { word, rest: rest.replace(/\s+/g, ' ') }
  })
const only = (word: string) => steps.filter((step) => step.word === word).map(({ rest }) => rest)

const ignored = read('Dockerfile.dockerignore')
  .trim()
  .split('\n')
  .map((line) => new RegExp(`^${line.replaceAll('.', '\\.').replaceAll('*', '[^/]*')}$`))
const isIgnored = (path: string) => ignored.some((pattern) => pattern.test(path))

interface Started {
  readonly data: string
  readonly url: string
  stop(): Promise<number | null>
}

/** Starts a command of an image or unit on free ports, and waits for its endpoints. */
async function start(words: readonly string[], data: string, cwd: string): Promise<Started> {
  const env = { ...process.env, NODE_ENV: 'production', SLUICE_DATA: data }
  const [program, ...args] = [...words, ...anyPorts]
  const child = spawn(program!, args, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] })
  process.once('exit', () => child.kill('SIGKILL'))
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const doors = join(data, 'doors.json')
  await until(() => {
    if (child.exitCode !== null) throw new Error(`it ended: ${stderr}`)
    return existsSync(doors)
  }, 'the endpoints')
  const { metrics } = JSON.parse(readFileSync(doors, 'utf8')) as { metrics: { port: number } }
  return {
    data,
    url: `http://127.0.0.1:${metrics.port}`,
    async stop() {
      if (child.exitCode === null && child.kill('SIGTERM')) await once(child, 'exit')
      return child.exitCode
    },
  }
}

describe('the Dockerfile', () => {
  const place = mkdtempSync(join(tmpdir(), 'sluice-image-'))
  const stages = new Map<string, string>()
  let image = ''
  let cwd = '/'

  afterAll(() => rmSync(place, { recursive: true, force: true }))

  /** A path of the image in the folder that stands for it. */
  const inside = (path: string) => join(image, isAbsolute(path) ? path : join(cwd, path))

  const run: Readonly<Record<string, (rest: string) => void>> = {
    FROM(rest) {
      const [, name = 'last'] = / AS (\w+)$/.exec(rest) ?? []
      expect(rest).toMatch(/^node:24-trixie-slim/)
      image = join(place, name)
      stages.set(name, image)
      for (const made of ['usr/local/bin', 'var/lib', 'etc'])
        mkdirSync(join(image, made), { recursive: true })
    },
    WORKDIR(rest) {
      cwd = rest
      mkdirSync(inside('.'), { recursive: true })
    },
    COPY(rest) {
      const words = rest.split(' ')
      const stage = words[0]!.startsWith('--from=') ? words.shift()!.slice(7) : null
      const target = words.pop()!
      const from = stage === null ? root : stages.get(stage)!
      for (const word of words) {
        const into = target.endsWith('/') && words.length > 1 ? join(target, word) : target
        mkdirSync(dirname(inside(into)), { recursive: true })
        cpSync(join(from, word), inside(into), {
          recursive: true,
          filter: (path) => stage !== null || !isIgnored(path.slice(root.length + 1)),
        })
      }
    },
    RUN(rest) {
      if (rest.startsWith('npm ci ')) {
        linkPackages()
        if (isSlice) return cpSync(join(root, 'dist'), inside('dist'), { recursive: true })
        return shell('npm run prepare')
      }
      // Users of the image do not exist here.
      shell(rest.replace('-o node -g node ', ''))
    },
  }

  /** What `npm ci` does, from the packages of this tree; links, since they are over 700 MB. */
  function linkPackages(): void {
    const target = inside('node_modules')
    // In a worktree it may be a link; a copy of the link would lead to the original.
    const packages = realpathSync(join(root, 'node_modules'))
    if (spawnSync('cp', ['-al', packages, target]).status !== 0)
      execFileSync('cp', ['-a', packages, target])
    // npm writes this one, which must not reach the original through the link.
    const written = '.package-lock.json'
    rmSync(join(target, written), { force: true })
    if (existsSync(join(packages, written))) cpSync(join(packages, written), join(target, written))
    // Compiled last, so that the build takes it over: the compiler of AssemblyScript is slow.
    for (const path of ['streams/analysis/analysis.wasm', 'base/checksum.wasm']) {
      const module = join('dist', 'src', path)
      mkdirSync(dirname(inside(module)), { recursive: true })
      cpSync(join(root, module), inside(module))
    }
  }

  function shell(command: string): void {
    const mapped = command.replace(/(?<=\s)\/(app|var|etc|usr\/local)(?=\/)/g, `${image}/$1`)
    execFileSync('sh', ['-c', mapped], { cwd: inside('.'), stdio: 'pipe' })
  }

  test('builds an image that starts, is healthy, serves every series of the board, and stops', async () => {
    for (const { word, rest } of steps) run[word]?.(rest)
    const words = JSON.parse(only('CMD')[0]!) as string[]
    const mapped = words.map((word) => (isAbsolute(word) ? inside(word) : word))
    const [, check = ''] = / CMD (\[.*\])$/.exec(only('HEALTHCHECK')[0]!) ?? []
    const server = await start(mapped, inside('/var/lib/sluice'), inside('.'))
    try {
      const [program = '', ...args] = (JSON.parse(check) as string[]).map((word) =>
        word.replace('http://127.0.0.1:8443', server.url),
      )
      await until(() => spawnSync(program, args).status === 0, 'its health')
      const page = await fetch(`${server.url}/openapi.json`)
      expect(page.status).toBe(200)
      const metrics = await (await fetch(`${server.url}/metrics`)).text()
      const served = new Set([...metrics.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name))
      const named = ['alerts.yml', 'grafana.json'].flatMap((name) => [
        ...readFileSync(join(root, 'dashboards', name), 'utf8').matchAll(/sluice_[a-z0-9_]+/g),
      ])
      const unknown = named
        .map(([name]) => name.replace(/_(bucket|sum|count)$/, ''))
        .filter((name) => !served.has(name) && !served.has(`${name}_count`))
      expect([...new Set(unknown)]).toEqual([])
      expect(await server.stop()).toBe(0)
      expect(spawnSync(program, args).status).toBe(1)
    } finally {
      await server.stop()
    }
    expect(readFileSync(join(image, 'usr/local/bin/sluice'), 'utf8')).toContain('dispatch')
  })

  test('runs as a user other than root, with its data in a volume', () => {
    expect(only('USER')).toEqual(['node'])
    expect(only('VOLUME')).toEqual(['/var/lib/sluice'])
    expect(steps.findIndex(({ word }) => word === 'USER')).toBeLessThan(
      steps.findIndex(({ word }) => word === 'CMD'),
    )
  })
})

describe('compose', () => {
  interface Service {
    readonly image: string
    readonly profiles?: readonly string[]
    readonly ports: readonly string[]
    readonly volumes: readonly string[]
    readonly build?: { readonly context: string; readonly dockerfile: string }
  }
  const { services, volumes } = parse(read('compose.yaml')) as {
    services: Readonly<Record<string, Service>>
    volumes: Readonly<Record<string, null>>
  }

  test('mounts files that exist and volumes that it declares', () => {
    for (const service of Object.values(services))
      for (const mount of service.volumes) {
        const source = mount.split(':')[0]!
        if (source.startsWith('.')) expect(existsSync(resolve(folder, source)), mount).toBe(true)
        else expect(volumes).toHaveProperty(source)
      }
    const { context, dockerfile } = services.sluice!.build!
    expect(existsSync(resolve(folder, context, dockerfile))).toBe(true)
  })

  test('publishes plaintext on loopback of the machine only', () => {
    for (const { ports } of Object.values(services))
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:(\d+):\1$/)
    const exposed = only('EXPOSE')[0]!
      .split(' ')
      .filter((port) => !port.endsWith('/udp'))
    expect(services.sluice!.ports.map((port) => port.split(':')[1])).toEqual(
      expect.arrayContaining(exposed),
    )
  })

  test('has Prometheus and Grafana in the profile watch, of fixed versions', () => {
    for (const name of ['prometheus', 'grafana']) {
      expect(services[name]?.profiles).toEqual(['watch'])
      expect(services[name]?.image).toMatch(/:v?\d+\.\d+\.\d+$/)
    }
    expect(services.sluice?.profiles).toBeUndefined()
  })

  test('ships a configuration that is valid, and is refused without allowPlaintext', async () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-deploy-'))
    const check = (...flags: string[]) =>
      sluice(data, 'config', 'check', `--config=${join(folder, 'sluice.yaml')}`, ...flags)
    expect(await check()).toMatchObject({ code: 0 })
    expect((await check('--allowPlaintext=false')).code).not.toBe(0)
    rmSync(data, { recursive: true, force: true })
  })

  test.skipIf(findTool('promtool') === null)(
    'has a scrape file that promtool takes (skipped without promtool)',
    () => {
      const place = mkdtempSync(join(tmpdir(), 'sluice-deploy-'))
      for (const mount of services.prometheus!.volumes.filter((one) => one.startsWith('.'))) {
        const [source = '', target = ''] = mount.split(':')
        cpSync(resolve(folder, source), join(place, target.split('/').at(-1)!))
      }
      const words = ['check', 'config', join(place, 'prometheus.yml')]
      const { status, stderr } = spawnSync(findTool('promtool')!, words, { encoding: 'utf8' })
      rmSync(place, { recursive: true })
      expect(status, stderr).toBe(0)
    },
  )

  test('provisions the data source that the board asks for', () => {
    const dashboards = join(root, 'dashboards')
    const yaml = (path: string) =>
      parse(readFileSync(join(dashboards, 'provisioning', path), 'utf8'))
    const { datasources } = yaml('datasources/sluice.yml')
    expect(datasources).toMatchObject([{ type: 'prometheus', isDefault: true }])
    const [mount] = services.grafana!.volumes.filter((one) => one.includes('grafana.json'))
    const { providers } = yaml('dashboards/sluice.yml')
    expect(mount).toContain(`:${providers[0].options.path}/grafana.json`)
  })
})

describe('the unit', () => {
  const unit = read('sluice.service')
  const values = (key: string) =>
    [...unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value]) => value!)
  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
  let data = ''

  beforeAll(() => {
    data = mkdtempSync(join(tmpdir(), 'sluice-unit-'))
  })
  afterAll(() => rmSync(data, { recursive: true, force: true }))

  /** The words of a command line, with this machine's folders. */
  const command = (line: string) =>
    line
      .replace('/usr/bin/node', process.execPath)
      .replaceAll('/opt/sluice', root)
      .replaceAll('/etc/sluice', folder)
      .replaceAll('/var/lib/sluice', data)
      .split(' ')

  test.skipIf(!hasSystemd)('is taken by systemd-analyze (skipped without systemd)', () => {
    const verified = spawnSync('systemd-analyze', ['verify', join(folder, 'sluice.service')], {
      encoding: 'utf8',
    })
    // Node may be elsewhere on this machine.
    const problems = verified.stderr
      .split('\n')
      .filter((line) => line.includes('sluice.service') && !line.includes('/usr/bin/node'))
    expect(problems).toEqual([])
    const words = ['security', '--offline=yes', '--threshold=25', join(folder, 'sluice.service')]
    const security = spawnSync('systemd-analyze', words, { encoding: 'utf8' })
    const isKnown = !security.stderr.includes('unrecognized option')
    if (isKnown) expect(security.status, security.stdout.slice(-400)).toBe(0)
  })

  test('checks the configuration, starts, and stops with 0', async () => {
    const [program, ...args] = command(values('ExecStartPre')[0]!)
    const checked = spawnSync(program!, args, { encoding: 'utf8' })
    expect(checked.status, checked.stderr).toBe(0)
    const server = await start(command(values('ExecStart')[0]!), data, root)
    const healthy = async () => (await fetch(`${server.url}/health`)).ok
    await until(healthy, 'its health')
    expect(await server.stop()).toBe(0)
  })

  test('restarts after a silent source, not after a wrong configuration', () => {
    expect(values('Restart')).toEqual(['on-failure'])
    expect(values('RestartForceExitStatus')).toEqual(['75'])
    expect(values('RestartPreventExitStatus')).toEqual(['2'])
    const [program, ...args] = command(values('ExecStart')[0]!)
    expect(spawnSync(program!, [...args, '--rpc.port=none']).status).toBe(2)
  })

  test('allows the file descriptors that doctor asks for', async () => {
    const checks = readFileSync(
      join(root, 'src', 'operator', 'commands', 'machine-checks.ts'),
      'utf8',
    )
    const wanted = Number(/FILES_WANTED = ([\d_]+)/.exec(checks)?.[1]?.replaceAll('_', ''))
    expect(Number(values('LimitNOFILE')[0])).toBeGreaterThanOrEqual(wanted)
    expect(values('StateDirectory')).toEqual(['sluice'])
  })
})
