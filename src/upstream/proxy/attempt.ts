// One try of a call at one node: its answer taken apart, or why there is none. Thread: main.
// Made by read.ts and send.ts. Short answers are held and go on as they came; long ones become a
// stream as soon as their opening is known. A node's own words never carry its address on.
import { isAscii } from 'node:buffer'
import { type Answer, encodedBytes, encodedText, failure, streamed } from '../../jsonrpc/build.ts'
import {
  CLOSING_BYTES,
  closingOf,
  isPair,
  openingOf,
  type Split,
  splitAnswer,
} from '../../jsonrpc/envelope.ts'
import type {
  AnswerHeaders,
  AnswerListener,
  CallFault,
  CallOptions,
  NodeCall,
} from '../node-call.ts'
import { secretsOf } from '../node-secrets.ts'
import type { UpstreamNode } from '../upstream-node.ts'
import type { ProxyTally } from './meters.ts'
import { NodeStream } from './node-stream.ts'
import { SLAB_BYTES, Slab } from './slabs.ts'

/** `status` is an HTTP status that is no answer, `garbage` a body that is none. */
export type TryFault = CallFault | 'status' | 'garbage'

export interface TryOwner {
  /** A result or an error of the node; comes once, and nothing after it. */
  answered(attempt: Attempt, answer: Answer): void
  /** `isSent` tells whether the node may have seen the call. */
  failed(attempt: Attempt, fault: TryFault, isSent: boolean): void
}

/** Answers up to here are held whole. */
export const WHOLE_BYTES_MAX = SLAB_BYTES
/** Plain ones up to here travel as text, which is cheaper to frame than bytes. */
const TEXT_BYTES_MAX = 16_384
/** An opening is within these first bytes. */
const OPENING_BYTES = 4_096
const ERROR_BYTES_MAX = 4_194_304
/** A body that nobody wants is let through up to here, to keep the connection. */
const UNWANTED_BYTES_MAX = 65_536

export class Attempt implements AnswerListener {
  readonly node: UpstreamNode
  /** When its owner gives it up; monotonic. */
  untilMs = Number.POSITIVE_INFINITY
  readonly #owner: TryOwner
  readonly #tally: ProxyTally
  /** Of the call; an answer of another one is none. */
  readonly #id: string
  #call: NodeCall | null = null
  #state: 'waiting' | 'unwanted' | 'streaming' | 'over' = 'waiting'
  #pieces: Buffer[] = []
  #text: string | null = null
  /** Where an answer of known length is gathered. */
  #slab: Slab | null = null
  #length = -1
  #bytes = 0
  #bytesMax = WHOLE_BYTES_MAX
  #isLong = false
  #stream: NodeStream | null = null

  constructor(node: UpstreamNode, owner: TryOwner, tally: ProxyTally, id: string) {
    this.node = node
    this.#owner = owner
    this.#tally = tally
    this.#id = id
  }

  /** Sends the call; the owner may hear of a fault before this returns. */
  begin(body: string, options: CallOptions): void {
    const call = this.node.call(body, options, this)
    this.#call = call
  }

  /** Its answer is not wanted any more. */
  abort(): void {
    if (this.#state === 'over' || this.#state === 'streaming') return
    this.#state = 'over'
    this.#call?.abort()
  }

  onHead(status: number, headers: AnswerHeaders): void {
    if (this.#state !== 'waiting') return
    if (isNoAnswer(status)) {
      this.#refuse('status')
      return
    }
    this.#length = Number(headers['content-length'] ?? -1)
    this.#isLong = this.#length > WHOLE_BYTES_MAX
  }

  onData(chunk: Buffer): void {
    if (this.#stream !== null) {
      this.#stream.push(chunk)
      return
    }
    this.#bytes += chunk.length
    if (this.#state === 'unwanted') {
      if (this.#bytes > UNWANTED_BYTES_MAX) this.#call?.abort()
      return
    }
    if (this.#state !== 'waiting') return
    // Most answers are this: plain, short, and here in one piece.
    if (chunk.length === this.#length && chunk.length <= TEXT_BYTES_MAX && isAscii(chunk)) {
      this.#text = chunk.toString('latin1')
      return
    }
    if (this.#slab !== null || this.#takeSlab())
      chunk.copy(this.#slab!.bytes, this.#bytes - chunk.length)
    else this.#pieces.push(Buffer.from(chunk))
    if (this.#bytes > (this.#isLong ? OPENING_BYTES : this.#bytesMax)) this.#goLong()
  }

  onEnd(): void {
    if (this.#stream !== null) {
      this.#stream.end()
      return
    }
    if (this.#state !== 'waiting') return
    const answer = this.#whole()
    if (answer === null) {
      this.#garbage()
      return
    }
    this.#state = 'over'
    this.#owner.answered(this, answer)
  }

  onFault(fault: CallFault, isSent: boolean): void {
    if (this.#stream !== null) {
      this.#stream.fail()
      return
    }
    if (this.#state !== 'waiting') return
    this.#state = 'over'
    this.#owner.failed(this, fault, isSent)
  }

  #refuse(fault: TryFault): void {
    this.#state = 'unwanted'
    this.#pieces = []
    this.#owner.failed(this, fault, true)
  }

  /** What it sends is no JSON-RPC: as bad as no answer. */
  #garbage(): void {
    this.node.failed('broken')
    this.#refuse('garbage')
  }

  #goLong(): void {
    const first = joined(this.#pieces)
    const opening = openingOf(first.toString('latin1', 0, OPENING_BYTES), this.#id)
    if (opening === null || this.#bytes > ERROR_BYTES_MAX) {
      this.#garbage()
      this.#call?.abort()
    } else if (opening.isError) {
      // An error is read whole, since its code decides what becomes of the call.
      this.#isLong = false
      this.#bytesMax = ERROR_BYTES_MAX
    } else {
      this.#pieces = []
      this.#state = 'streaming'
      // A head and bytes came, so there is a call.
      const value = first.subarray(opening.start)
      this.#stream = new NodeStream(this.#call!, value, this.#tally, this.#id)
      this.#owner.answered(this, streamed(this.#stream))
    }
  }

  #whole(): Answer | null {
    if (this.#slab !== null) this.#pieces.push(this.#slab.bytes.subarray(0, this.#bytes))
    const pieces = this.#pieces
    if (this.#text !== null) return this.#ofText(this.#text)
    if (pieces.length === 0) return null
    if (this.#bytes <= TEXT_BYTES_MAX) {
      const all = joined(pieces)
      if (isAscii(all)) return this.#ofText(all.toString('latin1'))
    }
    const ends = endsOf(pieces, this.#id)
    if (ends !== null) return { kind: 'bytes', pieces: ends, ...this.#release() }
    const all = joined(pieces)
    const split: Split | null = splitAnswer(all.toString('latin1'), this.#id)
    if (split === null) return null
    const value = all.subarray(split.start, split.end)
    return split.isError ? this.#error(value.toString()) : encodedBytes(value)
  }

  #takeSlab(): boolean {
    if (this.#length > WHOLE_BYTES_MAX || this.#length < 0 || this.#pieces.length > 0) return false
    this.#slab = new Slab(this.#length)
    return true
  }

  /** Once it is sent, the next answer may be gathered in the same place. */
  #release(): { readonly release?: () => void } {
    const slab = this.#slab
    return slab === null ? {} : { release: () => slab.release() }
  }

  #ofText(text: string): Answer | null {
    const split = splitAnswer(text, this.#id)
    if (split === null) return null
    const value = text.slice(split.start, split.end)
    return split.isError ? this.#error(value) : encodedText(value)
  }

  #error(text: string): Answer | null {
    const error = parsed(text)
    if (error === null) return null
    return failure(secretsOf(this.node.addresses).redactError({ ...error, text }))
  }
}

/** Statuses behind which no word of the node to its caller stands. */
function isNoAnswer(status: number): boolean {
  if (status === 200) return false
  return status >= 500 || status < 200 || NO_ANSWER.has(status)
}

const NO_ANSWER: ReadonlySet<number> = new Set([
  204, 301, 302, 303, 304, 307, 308, 401, 403, 404, 405, 407, 408, 411, 415, 429,
])

/** The pieces without their envelope, where the ends alone show it; null when they do not. */
function endsOf(pieces: readonly Buffer[], id: string): Buffer[] | null {
  const first = pieces[0]!
  const last = pieces[pieces.length - 1]!
  if (pieces.length > 1 && last.length < CLOSING_BYTES) return null
  const opening = openingOf(first.toString('latin1', 0, CLOSING_BYTES), id)
  if (opening === null || opening.isError) return null
  const from = Math.max(0, last.length - CLOSING_BYTES)
  const closing = closingOf(last.toString('latin1', from), id)
  const { start } = opening
  const end = from + closing
  if (closing < 1 || !isPair(first[start]!, last[end - 1]!)) return null
  if (pieces.length === 1) return end > start ? [first.subarray(start, end)] : null
  return [first.subarray(start), ...pieces.slice(1, -1), last.subarray(0, end)]
}

function joined(pieces: readonly Buffer[]): Buffer {
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
}

function parsed(text: string): { code: number; message: string } | null {
  try {
    const error: unknown = JSON.parse(text)
    if (typeof error !== 'object' || error === null) return null
    const { code, message } = error as Record<string, unknown>
    if (typeof code !== 'number') return null
    return { code, message: typeof message === 'string' ? message : '' }
  } catch {
    return null
  }
}
