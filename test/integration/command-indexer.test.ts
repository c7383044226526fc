// `sluice indexer serve` with wrong words: one sentence each, before anything starts.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { issueToken } from '../../src/customers/subscriptions/issue.ts'
import { runCommand } from '../testkit/command.ts'
import { runHere } from '../testkit/run-here.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-indexer-'))
afterAll(() => rmSync(folder, { recursive: true }))

function file(name: string, content: string, mode = 0o600): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  chmodSync(path, mode)
  return path
}

const token = issueToken()
const good = file('good', `Shown once; it cannot be shown again:\nTOKEN=${token}\n`)
const engine = ['--indexer.engine=clickhouse', '--indexer.url=http://127.0.0.1:1']
const gateway = ['--gateway', '127.0.0.1:8124']
const serve = (...words: string[]) => runHere('indexer', 'serve', ...words)

describe('indexer serve', () => {
  test.each<readonly [string, readonly string[], string]>([
    ['an embedded engine', [...gateway], 'indexer.engine is duckdb'],
    ['no gateway', [...engine, '--credential-file', good], '--gateway is missing'],
    ['no credential', [...engine, ...gateway], '--credential-file is missing'],
    ['no such file', [...engine, ...gateway, '--credential-file', join(folder, 'no')], 'ENOENT'],
    [
      'a file that others can read',
      [...engine, ...gateway, '--credential-file', file('open', token, 0o644)],
      'can be read by others: chmod 600',
    ],
    [
      'a file without a credential',
      [...engine, ...gateway, '--credential-file', file('empty', 'TOKEN=\n')],
      'contains no credential',
    ],
    ...['host', 'host:', ':8124', 'http://', 'ftp://host:1', 'host:99999'].map(
      (text) =>
        [
          `the gateway ${text}`,
          [...engine, '--credential-file', good, '--gateway', text],
          '--gateway must be host:port',
        ] as const,
    ),
    [
      'plain text to another machine',
      [...engine, '--credential-file', good, '--gateway', 'http://gateway.example:8124'],
      'would send the credential in plain text',
    ],
  ])('refuses %s in one sentence', async (_, words, sentence) => {
    const ran = await serve(...words)
    expect(ran.code).toBe(2)
    expect(ran.stderr.split('\n')[0]).toContain(sentence)
    expect(ran.stderr).not.toContain(token)
    expect(ran.stdout).toBe('')
  })

  test('refuses a port of its meters that is taken', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => other.once('listening', resolve))
    const { port } = other.address() as { port: number }
    const words = [...engine, ...gateway, '--credential-file', good, '--metrics-port', `${port}`]
    const ran = await runCommand(['indexer', 'serve', ...words])
    expect([ran.code, ran.stdout]).toEqual([1, ''])
    expect(ran.stderr).toContain('--metrics-port: ')
    await new Promise((resolve) => other.close(resolve))
  })
})
