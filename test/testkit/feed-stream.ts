// A reader of the index's feeds without a socket: what a Follower sends it.
import { pack, unpack } from '../../src/base/threads/frames.ts'
import type { GrpcStatus, GrpcStream } from '../../src/base/transport/grpc-stream.ts'
import type { FeedItem, FeedRequest, FeedStart } from '../../src/indexer/feed-items.ts'
import { type FollowedLog, Follower } from '../../src/products/indexer/feeds.ts'
import { HandClock } from './fake-execution.ts'

const prefixBytes = 5

export class FeedStream implements GrpcStream {
  readonly encoding = null
  readonly items: FeedItem[] = []
  readonly starts: FeedStart[] = []
  readonly ends: number[] = []
  /** Bytes that the reader has not taken. */
  unsentBytes = 0
  readonly follower: Follower

  constructor(log: FollowedLog, request: FeedRequest = { after: null, run: '' }) {
    this.follower = new Follower(this, log, { run: 'start', clock: new HandClock() })
    this.follower.message(pack(request))
  }

  /** Items that were lost, as the reader was told. */
  get lost(): number {
    return this.starts.reduce((sum, { lost }) => sum + lost, 0)
  }

  get seqs(): number[] {
    return this.items.map(({ seq }) => seq)
  }

  header(): undefined {}

  write(frames: Buffer): boolean {
    for (let at = 0; at < frames.length; ) {
      const end = at + prefixBytes + frames.readUInt32BE(at + 1)
      const message = unpack(frames.subarray(at + prefixBytes, end)) as FeedStart | FeedItem
      if ('lost' in message) this.starts.push(message)
      else this.items.push(message)
      at = end
    }
    return true
  }

  end({ code }: GrpcStatus): void {
    this.ends.push(code)
  }
}
