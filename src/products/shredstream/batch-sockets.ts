// Opens the sockets of the batch loop once and keeps them across restarts of the worker.
// Thread: shred worker. The sockets belong to the process, not to the thread: their descriptors are
// in the shared stats, and a restarted worker reuses them, so the kernel buffers what arrives
// meanwhile.
import { parseAddress } from '../../base/cidr.ts'
import { Fault } from '../../base/errors.ts'
import {
  boundPort,
  grantedBytes,
  type Libc,
  openSocket,
  type SocketOptions,
} from '../../base/transport/udp-batch.ts'
import type { SharedStats } from './shared-stats.ts'
import type { WorkerSettings } from './shred-components.ts'

/** Receive timeout: a stop or a changed target is noticed within this time. */
const waitMs = 20

export interface Descriptors {
  readonly ingest: number
  readonly out4: number
  readonly out6: number
}

/** Returns the sockets of the previous worker, or opens new ones. Descriptor 0 means no socket. */
export function openSockets(libc: Libc, stats: SharedStats, settings: WorkerSettings): Descriptors {
  const { sockets } = stats
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
  for (const [index, host] of settings.sourceHosts.entries()) {
    const isV4 = parseAddress(host)?.family === 4
    const options = { ...base, host, port, keepsErrors: true, isV6Only: true }
    // The second host is IPv6, which a machine may not support.
    const fd = index === 0 ? openSocket(libc, options) : tryOpen(libc, options)
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

export function closeSockets(libc: Libc, stats: SharedStats): void {
  for (const name of ['ingest', 'out4', 'out6'] as const) {
    const fd = stats.sockets.get(0, name)
    stats.sockets.set(0, name, 0)
    if (fd > 0) libc.close(fd)
  }
}
