// `sluice query` as an operator or a customer runs it, against the endpoint in this process.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type DataLock, lockData } from '../../src/customers/subscriptions/lock.ts'
import { commandPath, runCommand } from '../testkit/command.ts'
import { IndexerStage } from '../testkit/indexer-stage.ts'
import { until } from '../testkit/until.ts'

const stage = new IndexerStage()
const folder = mkdtempSync(join(tmpdir(), 'sluice-query-'))
const credentials = join(folder, 'credentials')
const hasScript = spawnSync('script', ['--version']).status === 0
let secrets: readonly string[] = []
let lock: DataLock

beforeAll(async () => {
  await stage.open()
  const { token, indexer } = stage.bundle.issue({ products: ['indexer'] })
  const { user, password } = indexer!
  secrets = [token, password]
  writeFileSync(
    credentials,
    `Shown once\nTOKEN=${token}\nINDEXER_USER=${user}\nINDEXER_PASSWORD=${password}\n`,
  )
  writeFileSync(join(folder, 'token'), `${token}\n`)
  writeFileSync(join(folder, 'password'), `${password}\n`)
  const doors = { indexer: { host: '127.0.0.1', port: stage.port, tls: false } }
  writeFileSync(join(folder, 'doors.json'), JSON.stringify(doors))
  // As a server that runs on the folder does.
  const locked = await lockData(folder)
  if (!locked.ok) throw new Error(locked.refusal.message)
  lock = locked.value
})
afterAll(async () => {
  await lock.release()
  await stage.bundle.dispose()
  rmSync(folder, { recursive: true })
})

const query = (...words: string[]) =>
  runCommand(['query', '--data', folder, '--credentials', credentials, ...words])

describe('sluice query', () => {
  it('prints a table, JSON lines and CSV', async () => {
    const table = await query('SELECT rows 2')
    expect([table.code, table.stdout, table.stderr]).toEqual([
      0,
      'n  text\n-  -----\n0  row 0\n1  row 1\n',
      '',
    ])
    const json = await query('SELECT rows 2', '--output', 'json')
    expect(json.stdout).toBe('{"n":0,"text":"row 0"}\n{"n":1,"text":"row 1"}\n')
    const csv = await query('SELECT rows 2', '--output=csv')
    expect(csv.stdout).toBe('"n","text"\n0,"row 0"\n1,"row 1"\n')
    const own = await query('SELECT rows 2 FORMAT TSV')
    expect(own.stdout).toBe('0\trow 0\n1\trow 1\n')
  })

  it('gives every row of a long result', async () => {
    const { stdout } = await query('SELECT rows 200000', '--output', 'json')
    expect(stdout.split('\n').length).toBe(200_001)
    expect(stdout.endsWith('{"n":199999,"text":"row 199999"}\n')).toBe(true)
  })

  it('finds the endpoint by --url and takes the credentials from single files', async () => {
    const ran = await runCommand([
      ...['query', 'SELECT rows 1', '--url', stage.url, '--user', userOf()],
      ...['--password-file', join(folder, 'password'), '--token-file', join(folder, 'token')],
    ])
    expect([ran.code, ran.stdout]).toEqual([0, 'n  text\n-  -----\n0  row 0\n'])
  })

  it('reads the statement from standard input', () => {
    // spawnSync would block the endpoint in this process.
    return new Promise<void>((resolve, reject) => {
      const words = [commandPath, 'query', '--data', folder, '--credentials', credentials]
      const child = spawn(process.execPath, words, { env: { PATH: process.env.PATH } })
      let stdout = ''
      child.stdout.on('data', (chunk) => {
        stdout += chunk
      })
      child.on('error', reject)
      child.on('close', () => {
        expect(stdout).toContain('row 0')
        resolve()
      })
      child.stdin.end('SELECT rows 1\n')
    })
  })

  it('reports errors and exits with 1, 2 or 3', async () => {
    const syntax = await query('SELEC 1')
    expect([syntax.code, syntax.stdout]).toEqual([1, ''])
    expect(syntax.stderr).toMatch(/^sluice: Code: 62\. DB::Exception: .*\(SYNTAX_ERROR\)\n$/)
    expect((await query('SELECT fail 60')).code).toBe(3)
    expect((await query('')).code).toBe(2)
    expect((await runCommand(['query', 'SELECT 1', '--data', folder])).code).toBe(2)
    expect((await query('SELECT 1', '--url', 'ftp://x')).code).toBe(2)
    expect((await query('SELECT 1', '--ca', join(folder, 'none'))).code).toBe(2)
    const json = await query('SELECT fail 159', '--output', 'json')
    expect(JSON.parse(json.stderr).error.code).toBe('exception-159')
    const nobody = await query('SELECT 1', '--url', 'http://127.0.0.1:1')
    expect([nobody.code, nobody.stderr]).toEqual([1, expect.stringContaining('no answer from')])
    const late = await query('SELECT late 100000', '--output', 'json')
    expect([late.code, late.stderr]).toEqual([1, expect.stringContaining('Code: 159.')])
    expect(late.stdout.endsWith('{"n":99999,"text":"row 99999"}\n')).toBe(true)
    for (const { stdout, stderr } of [syntax, json, nobody, late])
      for (const secret of secrets) expect(stdout + stderr).not.toContain(secret)
  })

  it('cancels its query on Ctrl-C', async () => {
    const before = stage.engine.cancelled
    const asked = stage.engine.queries.length
    const words = [commandPath, 'query', '--data', folder, '--credentials', credentials]
    const child = spawn(process.execPath, [...words, 'SELECT wait'], { stdio: 'ignore' })
    await until(() => stage.engine.queries.length > asked, 'the query to run')
    child.kill('SIGINT')
    await until(() => stage.engine.cancelled > before, 'the query to be cancelled')
    await until(() => child.exitCode === 1, 'the command to end')
  })

  it.skipIf(!hasScript)(
    'is a shell on a terminal, with a history for its owner alone',
    async () => {
      const home = join(folder, 'home')
      spawnSync('mkdir', ['-p', home])
      const line = `${process.execPath} ${commandPath} query --data ${folder} --credentials ${credentials}`
      const shell = spawn('script', ['-qec', line, '/dev/null'], {
        env: { PATH: process.env.PATH, HOME: home, TERM: 'dumb' },
      })
      let seen = ''
      shell.stdout.on('data', (chunk) => {
        seen += chunk
      })
      const shows = (text: string) => until(() => seen.includes(text), text)
      const type = (text: string) => shell.stdin.write(`${text}\r`)
      await shows('sluice> ')
      type('SELECT rows')
      await shows('-> ')
      type('3;')
      await shows('row 2')
      type('\\o csv')
      type('SELECT rows 4;')
      await shows('3,"row 3"')
      type('\\d tps')
      await shows('block_number')
      type('SELECT fail 60;')
      await shows('Code: 60.')
      type(`SELECT '${secrets[0]}';`)
      await until(() => stage.engine.queries.at(-1)!.statement.texts[0]!.includes('slu_'), 'it')
      type('\\q')
      await until(() => shell.exitCode === 0, 'the shell to end')
      const history = join(home, '.sluice_query_history')
      expect(readFileSync(history, 'utf8')).toContain('SELECT rows 4;')
      expect(readFileSync(history, 'utf8')).not.toContain('slu_')
      expect(statSync(history).mode & 0o777).toBe(0o600)
    },
  )
})

function userOf(): string {
  return /INDEXER_USER=(\S+)/.exec(readFileSync(credentials, 'utf8'))![1]!
}
