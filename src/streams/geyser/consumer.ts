// A consumer: a name under which the server remembers how far a client has come.
//
//   ping 7 ──► pong 7           marks the place of the pong in the stream
//   ping -7 ─► stored ─► pong -7   commits it: all before pong 7 counts as processed
//
// The next stream with that name continues at the place that was committed last. It takes the name
// over: a stream has it until another one asks for it.
import { type GrpcStatus, grpcCode } from '../../base/transport/grpc-stream.ts'
import { decodePosition, encodePosition, type Position } from './position.ts'

/** Metadata of a call that names its consumer. */
export const consumerHeader = 'consumer'
/** Places of a stream that can still be committed: the newest ones. */
const marksMax = 256

/** The consumers of one subscription, wherever they are stored. */
export interface ConsumerNames {
  /** Takes a name over. `taken` is called when another stream has it, or when it was reset. */
  open(name: string, taken: () => void): Promise<HeldConsumer | ConsumerRefusal>
}

type ConsumerRefusal = 'bad-name' | 'too-many' | 'away'

interface HeldConsumer {
  /** What was committed last; null for a new name. */
  readonly position: string | null
  /** Stores what is committed last within a moment. Resolves when it, or a later one, is stored. */
  commit(position: () => string): Promise<void>
  close(): void
}

/** The statuses of streams that cannot have their consumer. */
export const consumerStatus = {
  'bad-name': {
    code: grpcCode.invalidArgument,
    details: 'consumer: 1 to 64 letters, digits or . _ -',
  },
  'too-many': {
    code: grpcCode.resourceExhausted,
    details: 'a subscription has at most 16 consumers: reset one that is not needed',
  },
  away: {
    code: grpcCode.unavailable,
    details: 'the positions of consumers cannot be read now, try again',
    retryAfterMs: 1_000,
  },
  'no-log': {
    code: grpcCode.failedPrecondition,
    details: 'consumers are not available here: the server keeps no stream log (streams.keep)',
  },
  taken: {
    code: grpcCode.aborted,
    details: 'another stream continues as this consumer, or it was reset',
  },
} satisfies Record<string, GrpcStatus>

export const laterVersion: GrpcStatus = {
  code: grpcCode.failedPrecondition,
  details: 'the position of this consumer was stored by a later release',
}

export class Consumer {
  readonly #held: HeldConsumer
  readonly #marks = new Map<number, Position>()
  #committed: Position | null
  #dropped: number | null = null
  /** Where the stream begins; null for a new consumer, and for a position of a later release. */
  readonly start: Position | null

  constructor(held: HeldConsumer) {
    this.#held = held
    this.start = held.position === null ? null : decodePosition(held.position)
    this.#committed = this.start
  }

  get isOfLaterVersion(): boolean {
    return this.start === null && this.#held.position !== null
  }

  /** The place of a pong; one with the same id before is forgotten. */
  mark(id: number, position: Position): void {
    this.#marks.delete(id)
    this.#marks.set(id, position)
    if (this.#marks.size > marksMax) this.#marks.delete(this.#marks.keys().next().value!)
  }

  /** Null when no pong with that id is remembered. */
  commitMark(id: number): Promise<void> | null {
    const position = this.#marks.get(id)
    if (position === undefined) return null
    // What lies before it can only be committed again by mistake.
    for (const old of this.#marks.keys()) {
      if (old === id) break
      this.#marks.delete(old)
    }
    return this.commit(position)
  }

  /** What was passed of the slot counts no more. Resolves when that is stored. */
  async drop(slot: number): Promise<void> {
    this.#dropped = slot
    if (this.#committed !== null) await this.commit(this.#committed)
  }

  commit(at: Position): Promise<void> {
    const isKept = ({ slot }: { slot: number }) => slot !== this.#dropped
    const position = { ...at, slots: at.slots.filter(isKept), parts: at.parts.filter(isKept) }
    this.#committed = position
    return this.#held.commit(() => encodePosition(position))
  }

  close(): void {
    this.#held.close()
  }
}
