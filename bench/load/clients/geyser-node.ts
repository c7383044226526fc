// A geyser node for the relay bench: sends account updates of an exact size at a steady rate, slot
// by slot with metas and statuses, as a validator would. Thread: a process of its own. It sends no
// faster than its reader takes, so that a slow relay slows it down and loses nothing.
import { createServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { createdAtSuffix, FrameBatch, namePrefix, updateTag } from '../../../src/geyser/frame.ts'
import { SlabPool } from '../../../src/geyser/slab.ts'
import { accountUpdate, blockMetaUpdate, slotUpdate } from '../../../src/solana/update-build.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { createdAtMs, firstSlot, messageOf } from './grpc-message.ts'

const accountsPerSlot = 100
const tickMs = 5
/** With more unsent bytes the reader lags. */
const unsentBytesMax = 1024 * 1024
const prefix = namePrefix('s')
const pool = new SlabPool()

serveBench({
  open: openNode,
  /** Account updates per second from now on. */
  pace(updatesPerSecond: number) {
    rate = updatesPerSecond
  },
})

let slot = firstSlot
let rate = 0

function openNode(length: number): Promise<number> {
  const server = createServer()
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    stream.resume()
    const ok = { ':status': 200, 'content-type': 'application/grpc' }
    if (headers[':path']?.endsWith('/Subscribe') !== true) {
      // UNIMPLEMENTED, as of nodes that answer no unary methods.
      stream.respond({ ...ok, 'grpc-status': '12' }, { endStream: true })
      return
    }
    stream.respond(ok)
    send(stream, length)
  })
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

function send(stream: ServerHttp2Stream, length: number): void {
  let due = 0
  let lastMs = performance.now()
  const timer = setInterval(() => {
    if (stream.destroyed) return clearInterval(timer)
    const nowMs = performance.now()
    due += ((nowMs - lastMs) * rate) / 1000
    lastMs = nowMs
    // What the reader did not take in time is not made up for.
    due = Math.min(due, Math.max(rate * 0.05, 2 * accountsPerSlot))
    while (due >= accountsPerSlot && stream.writableLength < unsentBytesMax) {
      stream.write(slotFrames(length, slot++))
      due -= accountsPerSlot
    }
  }, tickMs)
}

/** All updates of a slot, as gRPC frames. */
function slotFrames(length: number, number: number): Buffer {
  const moment = { slot: number, createdAtMs }
  const batch = new FrameBatch(pool)
  const suffix = createdAtSuffix(createdAtMs)
  const { body } = accountUpdate(moment, messageOf(length))
  for (let index = 0; index < accountsPerSlot; index++)
    batch.append(updateTag.account, prefix, body, suffix)
  const meta = blockMetaUpdate(moment, {
    blockhash: String(number),
    parentSlot: number - 1,
    parentBlockhash: String(number - 1),
    blockHeight: number,
    blockTime: 1,
    executedTransactionCount: 0,
    entriesCount: 0,
    rewards: [],
  })
  batch.append(updateTag.blockMeta, prefix, meta.body, suffix)
  for (const status of [0, 1, 2] as const)
    batch.append(
      updateTag.slot,
      prefix,
      slotUpdate(moment, { parent: number - 1, status }).body,
      suffix,
    )
  return Buffer.concat(batch.take().map(({ bytes }) => bytes))
}
