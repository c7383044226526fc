// A frame of the shared event log as bytes, and the checks of what a row of it contains: any
// version of a gateway, or anybody with access to the database, may have written it.
//
//   {"kind":…,"facts":{"key":…,"block":…,"at":…,"of":…}} \n payload as it is sent to clients
import { isCount, isText, matching, objectOf } from '../../base/shape.ts'
import { type FrameFacts, frameKinds, unknownKind } from './encoded.ts'
import type { NewFrame } from './log.ts'
import { isPayload } from './payload-shape.ts'

interface FrameHead {
  readonly kind: string
  readonly facts?: {
    readonly key?: string
    readonly block: number
    readonly at: string
    readonly of?: Readonly<Record<string, unknown>> & { readonly startedNs: string }
  }
}

const newline = 0x0a
/** Nanoseconds that fit into 63 bits. */
const isTime = matching(/^[0-8]?\d{1,18}$/)
const isBlock = objectOf({
  blockHash: isText,
  ethHash: isText,
  txCount: isCount,
  gasUsed: isCount,
  startedNs: isTime,
})
const isFacts = objectOf(
  { block: isCount, at: isTime },
  { key: matching(/^.{1,200}$/), of: isBlock },
)
const isKind = matching(/^[A-Za-z]\w{0,63}$/)
const isHead = objectOf({ kind: isKind })
const isKnownHead = objectOf({}, { facts: isFacts })
const nothing = Buffer.from('null')

export function encodeFrame({ kind, payload, facts }: Omit<NewFrame, 'sinceMs'>): Buffer {
  const head: FrameHead = facts === null ? { kind } : { kind, facts: factsText(facts) }
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), payload])
}

/**
 * The frame of a row; null when it is none. One of a later version's kind has its number alone.
 * `sinceMs` is when this gateway has it.
 */
export function decodeFrame(bytes: Buffer, sinceMs: number): NewFrame | null {
  const end = bytes.indexOf(newline)
  const head = end < 0 ? null : parsedHead(bytes.toString('utf8', 0, end))
  if (head === null) return null
  const kind = frameKinds.find((known) => known === head.kind)
  if (kind === undefined) return { kind: unknownKind, payload: nothing, sinceMs, facts: null }
  const payload = bytes.subarray(end + 1)
  if (!isKnownHead(head) || !isPayload(kind, payload)) return null
  return { kind, payload, sinceMs, facts: head.facts === undefined ? null : factsOf(head.facts) }
}

/** Stands for a row that is no frame: something is missing, and nobody can say what. */
export function lostFrame(sinceMs: number): NewFrame {
  return { kind: 'Gap', payload: Buffer.from('{"from":0,"to":0}'), sinceMs, facts: null }
}

/** Names an event at every source of the chain; null for a frame that only this source has. */
export function keyOf({ kind, facts }: Pick<NewFrame, 'kind' | 'facts'>): string | null {
  return facts?.key === undefined ? null : `${kind}/${facts.key}`
}

function parsedHead(text: string): FrameHead | null {
  try {
    const head: unknown = JSON.parse(text)
    // Reason for the cast: `isHead` says so of the kind; facts are checked before they are read.
    return isHead(head) ? (head as FrameHead) : null
  } catch {
    return null
  }
}

function factsText({ blockNumber, atNs, key, block }: FrameFacts) {
  return {
    ...(key === undefined ? {} : { key }),
    block: blockNumber,
    at: String(atNs),
    ...(block === undefined ? {} : { of: { ...block, startedNs: String(block.startedNs) } }),
  }
}

function factsOf({ key, block, at, of }: NonNullable<FrameHead['facts']>): FrameFacts {
  return {
    blockNumber: block,
    atNs: BigInt(at),
    ...(key === undefined ? {} : { key }),
    // Reason for the cast: `isBlock` has found its fields.
    ...(of === undefined
      ? {}
      : { block: { ...of, startedNs: BigInt(of.startedNs) } as NonNullable<FrameFacts['block']> }),
  }
}
