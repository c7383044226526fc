// Every command of the README is run unchanged, on its own data folder and ports.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Server, sluice, startServer } from '../testkit/server.ts'
import { root } from '../testkit/tree.ts'

const run = promisify(execFile)
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const commands = [...readme.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block]) =>
  (block ?? '').trim().split('\n'),
)
/** Run by whoever runs this test, or by the whole check; running them here would not end. */
const aboutThisRun = ['npm install', 'npm start', 'npm test', 'npm run check', 'npm run test:long']

describe('the README', () => {
  let server: Server
  let folder: string

  beforeAll(async () => {
    // A folder that looks like a checkout, so that `npx --no sluice` finds ./data and the command.
    folder = mkdtempSync(join(tmpdir(), 'sluice-readme-'))
    mkdirSync(join(folder, 'node_modules', '.bin'), { recursive: true })
    symlinkSync(
      join(root, 'dist', 'src', 'main.js'),
      join(folder, 'node_modules', '.bin', 'sluice'),
    )
    server = await startServer({ data: join(folder, 'data'), isWhole: true })
  })
  afterAll(async () => {
    await server.dispose()
    rmSync(folder, { recursive: true, force: true })
  })

  test('stays under 150 lines', () => {
    expect(readme.split('\n').length).toBeLessThan(150)
  })

  for (const command of commands.filter((line) => !aboutThisRun.includes(line)))
    test(`is right about: ${command}`, async () => {
      const ready = withPorts(command, server)
      const cwd = command.startsWith('npm run') ? root : folder
      // Doctor may report findings on a small machine: exit code 1.
      const mayFail = command.endsWith('doctor')
      const result = await run('bash', ['-c', ready], {
        cwd,
        env: {
          ...process.env,
          TOKEN: server.token,
          INDEXER_USER: server.indexer.user,
          INDEXER_PASSWORD: server.indexer.password,
        },
        timeout: 120_000,
      }).catch((error: { code?: number; stdout?: string }) => {
        if (mayFail && error.code === 1) return { stdout: error.stdout ?? '' }
        throw error
      })
      expect(result.stdout.length).toBeGreaterThan(0)
      expect(result.stdout).not.toMatch(/"error"|DB::Exception/)
    })

  test('shows configurations that are taken', async () => {
    const operating = readFileSync(join(root, 'docs', 'OPERATING.md'), 'utf8')
    const blocks = [...`${readme}\n${operating}`.matchAll(/```yaml\n([\s\S]*?)```/g)]
    expect(blocks.length).toBeGreaterThan(1)
    for (const [index, [, block]] of blocks.entries()) {
      const file = join(folder, `example-${index}.yaml`)
      writeFileSync(file, block ?? '')
      const words = ['config', 'check', `--config=${file}`]
      const { stdout, stderr, code } = await sluice(server.data, ...words)
      // Problems are printed one a line; the certificate of the example does not exist here.
      const lines = `${stdout}${stderr}`.split('\n').filter((line) => line !== '')
      const others = lines.filter((line) => !/ cannot read \/etc\/sluice\//.test(line))
      if (others.length > 0) expect(code, `${block}\n${others.join('\n')}`).toBe(0)
    }
  })

  test('names every script it mentions', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>
    }
    for (const [, name] of readme.matchAll(/npm run ([\w:]+)/g))
      expect(scripts).toHaveProperty([name!])
  })
})

/** The same call on the ports that this run happened to get. */
function withPorts(command: string, server: Server): string {
  const { rpc, metrics, tpu, indexer } = server.doors
  return command
    .replace('127.0.0.1:8899', `127.0.0.1:${rpc?.port}`)
    .replace('127.0.0.1:8901', `127.0.0.1:${tpu?.port}`)
    .replace('127.0.0.1:8123', `127.0.0.1:${indexer?.port}`)
    .replace('127.0.0.1:8443', `127.0.0.1:${metrics?.port}`)
    .replace('npm run bench -- ring', 'npm run --silent bench -- ring --seconds 0.2')
}
