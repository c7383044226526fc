// SubscribeUpdate messages as a node sends them: framed by our own gRPC code.
import { createdAtSuffix, FrameBatch, namePrefix, updateTag } from '../../src/geyser/frame.ts'
import { SlabPool } from '../../src/geyser/slab.ts'
import type { SolanaUpdate } from '../../src/solana/updates.ts'
import { framePrefixBytes } from '../../src/transport/grpc-stream.ts'

const pool = new SlabPool()

/** The message of an update under a filter's name; blocks have none. */
export function messageOf(update: SolanaUpdate, filter = 'f'): Buffer {
  if (update.kind === 'block') throw new Error('blocks are put together by whoever receives')
  const batch = new FrameBatch(pool)
  const suffix = createdAtSuffix(update.createdAtMs)
  batch.append(updateTag[update.kind], namePrefix(filter), update.body, suffix)
  const frame = Buffer.concat(batch.take().map(({ bytes }) => bytes))
  return frame.subarray(framePrefixBytes)
}
