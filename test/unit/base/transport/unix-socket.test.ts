import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { listenAtPath } from '../../../../src/base/transport/unix-socket.ts'

it('a socket is its owner’s alone, and folders that threads make meanwhile can be entered', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-socket-'))
  const path = join(folder, 'one.sock')
  const server = createServer()
  let mask = -1
  const listen = server.listen.bind(server) as (...given: unknown[]) => unknown
  server.listen = ((...given: unknown[]) => {
    mask = process.umask()
    return listen(...given)
  }) as never
  await listenAtPath(server, path, 'listen')
  expect([mask & 0o700, mask & 0o077]).toEqual([0, 0o077])
  expect(statSync(path).mode & 0o777).toBe(0o600)
  server.close()
  rmSync(folder, { recursive: true })
})
