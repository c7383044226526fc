// The snapshot of a query when the writer is broken, absent or unreachable.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { LatestSnapshot, serveSnapshots } from '../../../../src/indexer/duckdb/snapshot-socket.ts'
import {
  emptySnapshot,
  type StoreSnapshot,
  writeSnapshot,
} from '../../../../src/indexer/duckdb/store-files.ts'
import { hangMs, until } from '../../../testkit/until.ts'

const written: StoreSnapshot = {
  version: 3,
  files: [{ name: 'seg-1-1-0.duckdb', tables: ['blocks'] }],
}
let folder = ''
let view: LatestSnapshot
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-view-'))
  view = new LatestSnapshot(folder)
})
afterEach(() => {
  vi.restoreAllMocks()
  rmSync(folder, { recursive: true, force: true })
})

describe('the latest snapshot', () => {
  test('is empty when nothing was ever written', async () => {
    expect(await view.get(5_000)).toEqual(emptySnapshot)
  })

  test('is an error, not an empty index, when readable.json cannot be read', async () => {
    const list = join(folder, 'readable.json')
    mkdirSync(list)
    await expect(view.get(5_000)).rejects.toThrow('EISDIR')
    rmSync(list, { recursive: true })
    await writeSnapshot(folder, written)
    expect(await view.renew(5_000)).toEqual(written)
  })

  test('is the one on disk when the writer answers with something else', async () => {
    const broken = createServer((socket) => socket.on('data', () => socket.write('{"files":\n')))
    await new Promise<void>((resolve) => broken.listen(join(folder, 'rows.sock'), resolve))
    await writeSnapshot(folder, written)
    expect(await view.get(5_000)).toEqual(written)
    await new Promise((resolve) => broken.close(resolve))
  })

  test('is shared by the queries of 180 ms and requested again by the next', async () => {
    let requests = 0
    const listener = await serveSnapshots(folder, async () => ({ ...written, version: ++requests }))
    const nowMs = vi.spyOn(performance, 'now').mockReturnValue(1_000)
    const versionAt = async (ms: number) => {
      nowMs.mockReturnValue(ms)
      return (await view.get(5_000)).version
    }
    expect(await versionAt(1_000)).toBe(1)
    expect(await versionAt(1_179)).toBe(1)
    expect(await versionAt(1_180)).toBe(2)
    await listener.close()
  })

  test('is requested twice at most by all queries that come while the writer is slow', async () => {
    let requests = 0
    let answer = () => {}
    const slow = new Promise<void>((resolve) => {
      answer = resolve
    })
    const listener = await serveSnapshots(folder, async () => {
      const version = ++requests
      await slow
      return { ...written, version }
    })
    const nowMs = vi.spyOn(performance, 'now').mockReturnValue(0)
    const versions: Promise<number>[] = []
    for (let query = 0; query < 10; query++) {
      nowMs.mockReturnValue(query * 1_000)
      const snapshot = query % 2 === 0 ? view.get(hangMs) : view.renew(hangMs)
      versions.push(snapshot.then(({ version }) => version))
      await until(() => requests === 1, 'the first request')
    }
    answer()
    // All but the first get rows that are newer than their request.
    expect(await Promise.all(versions)).toEqual([1, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    nowMs.mockReturnValue(20_000)
    expect(await view.get(hangMs)).toMatchObject({ version: 3 })
    await listener.close()
  })

  test('cannot be requested where the path is too long for a socket', () => {
    expect(() => new LatestSnapshot(join(folder, 'x'.repeat(120)))).toThrow('too long')
  })
})

describe("the writer's socket", () => {
  test('stays open when connections cannot be accepted', async () => {
    const listen = vi.spyOn(Server.prototype, 'listen')
    const listener = await serveSnapshots(folder, async () => written)
    const server = listen.mock.contexts[0] as Server
    for (let refused = 0; refused < 3; refused++) server.emit('error', new Error('accept EMFILE'))
    expect(await view.get(5_000)).toEqual(written)
    await listener.close()
  })
})
