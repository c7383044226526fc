// Every command and program of the README, the documents and the examples is run as it is printed,
// on a data folder and ports of its own.
import { execFile, spawn, spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launchBrowser, noBrowser, openPage } from '../testkit/browser.ts'
import { adjacentPorts } from '../testkit/free-port.ts'
import { nginxMissing, startNginx } from '../testkit/nginx.ts'
import { type Server, sluice, startServer } from '../testkit/server.ts'
import { isSlice } from '../testkit/slice.ts'
import { newPayer, sign, transfer } from '../testkit/tipped.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

const run = promisify(execFile)
const deadlineMs = 240_000
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  join('examples', 'README.md'),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
]
const read = (page: string) => readFileSync(join(root, page), 'utf8')
const readme = read('README.md')
const blocksOf = (page: string, language: string) =>
  [...read(page).matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(
    ([, block]) => block!,
  )
/** Run by whoever runs this test, or by the whole check; running them here would not end. */
const aboutThisRun = [
  'npm install && npm start',
  'npm install && npm test',
  'npm test',
  'npm run check',
  'npm run test:long',
]
const commands = pages.flatMap((page) =>
  blocksOf(page, 'sh')
    .flatMap((block) => block.replaceAll('\\\n', '').trim().split('\n'))
    .filter((command) => !aboutThisRun.includes(command))
    .map((command) => ({ page, command })),
)
/** Those that end by themselves; receivers of shreds and followers of the stream do not. */
const programs = pages.flatMap((page) =>
  blocksOf(page, 'js')
    .filter((block) => block.startsWith('import') && !/sluice\/client|node:dgram/.test(block))
    .map((block) => ({ page, block })),
)
const missing = new Map(
  ['python3', 'grpcurl', 'cc']
    .filter((tool) => spawnSync(tool, ['--version']).error !== undefined)
    .map((tool) => [tool, `no ${tool} on this machine`]),
)

const noNginx = await nginxMissing()

describe('the documents', () => {
  let server: Server
  let folder: string
  let env: NodeJS.ProcessEnv

  beforeAll(async () => {
    // A folder that looks like a checkout: `npx --no -- sluice` finds ./data and the command.
    folder = mkdtempSync(join(tmpdir(), 'sluice-readme-'))
    mkdirSync(join(folder, 'node_modules', '.bin'), { recursive: true })
    symlinkSync(
      join(root, 'dist', 'src', 'main.js'),
      join(folder, 'node_modules', '.bin', 'sluice'),
    )
    mkdirSync(join(folder, 'programs'))
    symlinkSync(join(root, 'node_modules'), join(folder, 'programs', 'node_modules'))
    const flags = await adjacentPorts()
    server = await startServer({ data: join(folder, 'data'), isWhole: true, flags })
    writeFileSync(join(folder, 'credentials.txt'), server.stdout(), { mode: 0o600 })
    writeFileSync(join(folder, 'questions.sql'), 'SELECT 1 AS one')
    env = {
      ...process.env,
      TOKEN: server.token,
      INDEXER_USER: server.indexer.user,
      INDEXER_PASSWORD: server.indexer.password,
      TRANSACTION: await tippedTransaction(server),
      ...Object.fromEntries(
        ['rpc', 'websocket', 'grpc', 'tpu', 'indexer', 'metrics'].map((product) => [
          `${product.toUpperCase()}_URL`,
          server.url(product),
        ]),
      ),
    }
    const indexed = async () => {
      const words = ['query', '--credentials', join(folder, 'credentials.txt'), '--output', 'csv']
      const { stdout } = await sluice(server.data, ...words, 'SELECT count() FROM instructions')
      return Number(stdout.split('\n')[1]) > 0
    }
    await until(indexed, 'the first rows of the index')
  })
  afterAll(async () => {
    await server?.dispose()
    rmSync(folder, { recursive: true, force: true })
  })

  test('keep the README under 150 lines', () => {
    expect(readme.split('\n').length).toBeLessThan(150)
  })

  test('print a form of the command that npm leaves alone', async () => {
    const { version } = JSON.parse(read('package.json')) as { version: string }
    expect(await outputOf('npx --no -- sluice --version')).toBe(`${version}\n`)
    expect(await outputOf('npx --no -- sluice --help')).toMatch(/^sluice: /)
    expect(await outputOf('npx --no -- sluice --data ./data products')).toContain('shredstream')
  })

  // The commands of a page run one after another, the pages beside each other.
  describe.concurrent('pages', () => {
    for (const page of pages) {
      const all = commands.filter((one) => one.page === page).map(({ command }) => command)
      if (all.length === 0) continue
      const isMissing = (command: string) => missing.has(command.split(' ')[0]!)
      const tools = new Set(all.filter(isMissing).map((command) => command.split(' ')[0]))
      const without = tools.size === 0 ? '' : ` (without ${[...tools].join(', ')})`
      test(`${page} is right about its commands${without}`, async () => {
        for (const command of all.filter((one) => !isMissing(one))) {
          const stdout = await outputOf(command)
          expect(stdout, command).not.toBe('')
          expect(stdout, command).not.toMatch(/"error"|DB::Exception/)
        }
      })
    }
  })

  /** Rejects with an error that has the command in its message. */
  async function outputOf(command: string): Promise<string> {
    const cwd = /^npm run|examples\/|grpcurl/.test(command) ? root : folder
    // On a small machine doctor may report findings and a measurement may be unfit: exit code 1;
    // -max-time of grpcurl exits 76.
    const mayFail = /doctor$|-max-time|sluice bench/.test(command)
    try {
      const options = { cwd, env, timeout: deadlineMs }
      return (await run('bash', ['-c', withPorts(command, server)], options)).stdout
    } catch (error) {
      // Reason for the cast: what execFile rejects with.
      const { code, stdout = '' } = error as { code?: number; stdout?: string }
      if (mayFail && (code === 1 || code === 76)) return stdout
      throw error
    }
  }

  for (const [index, { page, block }] of programs.entries())
    test(`${page} has a program that runs: ${block.split('\n')[0]}`, async () => {
      const file = join(folder, 'programs', `${index}.mjs`)
      writeFileSync(file, withPorts(block, server))
      const { stdout } = await run(process.execPath, [file], { env, timeout: deadlineMs })
      expect(stdout).toMatch(/\d/)
    })

  for (const language of ['js', 'c'])
    test.skipIf(language === 'c' && missing.has('cc'))(
      `docs/api/shredstream.md has a receiver in ${language}${language === 'c' ? ` (${missing.get('cc') ?? 'cc'})` : ''}`,
      async () => {
        const block = blocksOf(join('docs', 'api', 'shredstream.md'), language)[0]!
        const port = await freeUdpPort()
        const file = join(folder, `receiver.${language === 'js' ? 'mjs' : 'c'}`)
        writeFileSync(file, block.replaceAll('20010', String(port)))
        if (language === 'c') await run('cc', ['-o', join(folder, 'receiver'), file])
        const [program, words] =
          language === 'c'
            ? ['stdbuf', ['-oL', join(folder, 'receiver')]]
            : [process.execPath, [file]]
        const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] })
        let stdout = ''
        child.stdout.on('data', (chunk) => {
          stdout += chunk
        })
        try {
          const set = await sluice(server.data, 'destination', 'set', 'demo', `127.0.0.1:${port}`)
          expect(set).toMatchObject({ code: 0 })
          await until(() => /^\d+n? \d+ (data|code)$/m.test(stdout), 'its first shred')
        } finally {
          child.kill('SIGKILL')
        }
      },
    )

  test.skipIf(noBrowser !== null)(
    `examples/metrics.html shows blocks in a browser (${noBrowser ?? 'Chromium'})`,
    async () => {
      const browser = await launchBrowser()
      try {
        const page = pathToFileURL(join(root, 'examples', 'metrics.html'))
        page.searchParams.set('url', `${server.url('metrics').replace('http', 'ws')}/v1/ws`)
        const opened = await openPage(browser, 'file:')
        await opened.page.goto(page.href)
        await opened.page.locator('tbody tr').nth(1).waitFor()
        expect(await opened.page.textContent('tbody td')).toMatch(/^\d+$/)
        expect(opened.faults).toEqual([])
      } finally {
        await browser.close()
      }
    },
  )

  test.skipIf(noNginx !== undefined)(
    `docs/api/indexer.md has proxies that add x-token (${noNginx ?? 'nginx'})`,
    async () => {
      const { user, password } = server.indexer
      const basic = {
        authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
      }
      const ask = (url: string, query: string, headers = {}) =>
        fetch(`${url}/?${query}query=SELECT+1`, { headers })
      const inUrl = `user=${user}&password=${password}&`
      expect((await ask(server.url('indexer'), '', basic)).status).toBe(401)
      expect((await ask(server.url('indexer'), inUrl)).status).toBe(401)
      const blocks = blocksOf(join('docs', 'api', 'indexer.md'), 'nginx')
      expect(blocks.length).toBe(2)
      for (const [at, block] of blocks.entries()) {
        const filled = withPorts(block, server).replace('slu_…', server.token)
        const [, location = ''] = /^location \/ \{\n([\s\S]*)^\}/m.exec(filled) ?? []
        const nginx = await startNginx('', location)
        try {
          const url = `http://127.0.0.1:${nginx.port}`
          const answer = at === 0 ? await ask(url, '', basic) : await ask(url, inUrl)
          expect([answer.status, await answer.text()]).toEqual([200, '1\n'])
        } finally {
          await nginx.stop()
        }
      }
    },
  )

  test('show configurations that are taken', async () => {
    const blocks = pages.flatMap((page) => blocksOf(page, 'yaml'))
    expect(blocks.length).toBeGreaterThan(1)
    for (const [index, block] of blocks.entries()) {
      const file = join(folder, `example-${index}.yaml`)
      writeFileSync(file, block)
      const words = ['config', 'check', `--config=${file}`]
      const { stdout, stderr, code } = await sluice(server.data, ...words)
      // Problems are printed one a line; the certificate of the example does not exist here.
      const lines = `${stdout}${stderr}`.split('\n').filter((line) => line !== '')
      const others = lines.filter((line) => !/ cannot read \/etc\/sluice\//.test(line))
      if (others.length > 0) expect(code, `${block}\n${others.join('\n')}`).toBe(0)
    }
  })

  test('name every script they mention', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
    for (const page of pages)
      for (const [, name] of read(page).matchAll(/npm run ([\w:]+)/g))
        expect(scripts).toHaveProperty([name!])
  })
})

/** The same call on the ports that this run happened to get. */
function withPorts(text: string, server: Server): string {
  const ports = { rpc: 8899, websocket: 8900, grpc: 10010, tpu: 8901, indexer: 8123, metrics: 8443 }
  let ready = text.replace('npm run bench -- ring', 'npm run --silent bench -- ring --seconds 0.2')
  if (isSlice) ready = ready.replaceAll('--for 5s', '--for 1s')
  for (const [product, port] of Object.entries(ports))
    ready = ready.replaceAll(`127.0.0.1:${port}`, `127.0.0.1:${server.doors[product]?.port}`)
  return ready
}

async function tippedTransaction(server: Server): Promise<string> {
  const answer = await fetch(`${server.url('tpu')}/tip-accounts`)
  const { tipAccounts } = (await answer.json()) as { tipAccounts: string[] }
  const payer = await newPayer()
  const tip = transfer({ from: payer, to: tipAccounts[0]!, lamports: 1_000_000n })
  return Buffer.from(await sign(payer, [tip])).toString('base64')
}

async function freeUdpPort(): Promise<number> {
  const socket = createSocket('udp4').bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const { port } = socket.address()
  await new Promise<void>((resolve) => socket.close(() => resolve()))
  return port
}
