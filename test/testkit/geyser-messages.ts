// SubscribeUpdate messages as a node sends them: framed by our own gRPC code.
import { framePrefixBytes } from '../../src/base/transport/grpc-stream.ts'
import { batchOf, type GeyserBatch } from '../../src/chain/solana/geyser-batch.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import {
  createdAtSuffix,
  FrameBatch,
  namePrefix,
  SlabPool,
  updateTag,
} from '../../src/streams/geyser/frame.ts'

const batch = new FrameBatch(new SlabPool())

/** The message of an update under a filter's name; blocks have none. */
export function messageOf(update: SolanaUpdate, filter = 'f'): Buffer {
  if (update.kind === 'block') throw new Error('blocks are put together by whoever receives')
  const suffix = createdAtSuffix(update.createdAtMs)
  batch.append(updateTag[update.kind], namePrefix(filter), update.body, suffix)
  const runs = batch.take()
  const frame = Buffer.concat(runs.map(({ bytes }) => bytes))
  for (const { slab } of runs) slab?.release()
  return frame.subarray(framePrefixBytes)
}

/** Messages one after the other, with their table. */
export function batchFrom(messages: readonly Uint8Array[], nowMs = 0): GeyserBatch {
  const offsets: number[] = []
  let at = 0
  for (const { length } of messages) {
    offsets.push(at, at + length)
    at += length
  }
  return batchOf(Buffer.concat(messages), offsets, nowMs)
}
