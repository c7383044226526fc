// The files of the index on disk: for the server and its query processes, and for no other user of
// the machine, also where the data folder itself is open to everybody.
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { littleTraffic, type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

const isRoot = process.getuid?.() === 0
let server: Server
let folder = ''

beforeAll(async () => {
  const data = mkdtempSync(join(tmpdir(), 'sluice-open-data-'))
  chmodSync(data, 0o755)
  folder = join(data, 'index')
  // What an earlier version left open.
  mkdirSync(folder)
  chmodSync(folder, 0o755)
  writeFileSync(join(folder, 'readable.json'), '{"version":0,"files":[]}', { mode: 0o644 })
  server = await startServer({ data, isWhole: true, flags: littleTraffic })
  await until(() => server.stdout().includes('INDEXER_PASSWORD='), 'the banner')
})

afterAll(() => server?.dispose())

it('keeps every file and folder of the index from other users, and queries still read it', async () => {
  await until(async () => (await count()) > 0, 'rows')
  const kinds = new Set<string>()
  for (const name of readdirSync(folder)) {
    const found = statSync(join(folder, name), { throwIfNoEntry: false })
    // Given its final name, or superseded, meanwhile.
    if (found === undefined) continue
    const { mode, gid } = found
    kinds.add(name.replace(/-.*/, ''))
    const isShared = /^(seg|tail)-/.test(name) || name === 'scratch'
    expect([name, mode & 0o007, isShared && isRoot ? 0 : mode & 0o077]).toEqual([name, 0, 0])
    if (isRoot && isShared) expect([name, mode & 0o027, gid]).toEqual([name, 0, 0x736c_7569])
  }
  expect([...kinds]).toEqual(expect.arrayContaining(['hot', 'seg', 'readable.json', 'scratch']))
  expect(statSync(folder).mode & 0o777).toBe(isRoot ? 0o710 : 0o700)
})

it.runIf(isRoot)('is closed to a process of another user', async () => {
  const files = readdirSync(folder).map((name) => join(folder, name))
  const script =
    'cd "$1" && echo entered; shift; for f in "$@"; do cat "$f" && echo read; done; true'
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', script, 'sh', folder, ...files], {
    uid: 65_534,
    gid: 65_534,
  })
  expect(files.length).toBeGreaterThan(3)
  expect(stdout).toBe('')
})

async function count(): Promise<number> {
  const pair = Buffer.from(`${server.indexer.user}:${server.indexer.password}`).toString('base64')
  const answer = await fetch(`${server.url('indexer')}/`, {
    method: 'POST',
    headers: { authorization: `Basic ${pair}`, 'x-token': server.token },
    body: 'SELECT count() FROM transactions FORMAT CSV',
  })
  return answer.ok ? Number((await answer.text()).replaceAll('"', '')) : 0
}
