// The sockets of the batch loop: opened once, kept over restarts of the worker.
// Thread: shred worker. They belong to the process and not to the thread: their descriptors are on
// the board, and a restarted worker goes on with them, so that the kernel keeps what arrives.
import { parseAddress } from '../../base/cidr.ts'
import { Fault } from '../../base/errors.ts'
import {
  boundPort,
  grantedBytes,
  type Libc,
  openSocket,
  type SocketOptions,
} from '../../transport/udp-batch.ts'
import type { Board } from './board.ts'
import type { WorkerSettings } from './handle.ts'

/** How long a receive waits: a stop or a new target is seen within this. */
const waitMs = 20

export interface Descriptors {
  readonly ingest: number
  readonly out4: number
  readonly out6: number
}

/** The sockets of the worker before this one, or new ones. Descriptor 0 means none. */
export function openSockets(libc: Libc, board: Board, settings: WorkerSettings): Descriptors {
  const { sockets } = board
  const kept = sockets.row(0)
  if (kept.ingest > 0) return kept
  const { bufferBytes } = settings
  const base = { bufferBytes, timeoutMs: waitMs }
  const ingest = openSocket(libc, {
    ...base,
    host: settings.host,
    port: kept.ingestPort === 0 ? settings.port : kept.ingestPort,
    keepsErrors: false,
    isV6Only: false,
  })
  sockets.set(0, 'ingest', ingest)
  sockets.set(0, 'ingestPort', boundPort(libc, ingest))
  sockets.set(0, 'bufferBytes', grantedBytes(libc, ingest))
  let port = kept.outPort === 0 ? settings.sourcePort : kept.outPort
  for (const [place, host] of settings.sourceHosts.entries()) {
    const isV4 = parseAddress(host)?.family === 4
    const about = { ...base, host, port, keepsErrors: true, isV6Only: true }
    // The second one is IPv6, which a machine may not have.
    const fd = place === 0 ? openSocket(libc, about) : tryOpen(libc, about)
    if (fd === null) continue
    port = boundPort(libc, fd)
    sockets.set(0, isV4 ? 'out4' : 'out6', fd)
    sockets.set(0, 'outPort', port)
  }
  return sockets.row(0)
}

function tryOpen(libc: Libc, options: SocketOptions): number | null {
  try {
    return openSocket(libc, options)
  } catch (error) {
    if (error instanceof Fault) return null
    throw error
  }
}

export function closeSockets(libc: Libc, board: Board): void {
  for (const name of ['ingest', 'out4', 'out6'] as const) {
    const fd = board.sockets.get(0, name)
    board.sockets.set(0, name, 0)
    if (fd > 0) libc.close(fd)
  }
}
