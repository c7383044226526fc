// A frame of the shared event log as bytes, and the checks of what a row of it contains: any
// version of a gateway, or anybody with access to the database, may have written it.
//
//   {"kind":…,"facts":{"key":…,"block":…,"at":…,"of":…}} \n payload as it is sent to clients

import { isUtf8 } from 'node:buffer'
import {
  type Check,
  isCount,
  isNumber,
  isText,
  listOf,
  matching,
  objectOf,
} from '../../base/shape.ts'
import type { FrameFacts } from '../../base/shared-log.ts'
import { type FrameKind, frameKinds, unknownKind } from './encoded.ts'
import { jsonToMsgpack } from './json-to-msgpack.ts'
import type { NewFrame } from './log.ts'

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

// Decides whether bytes from outside are the payload of a kind, so that nobody who reads a stored
// frame has to: clients in both encodings, REST, meters, rows of the index.

/** Far above any payload: lists have at most 20 elements. */
const payloadBytesMax = 1024 * 1024

const slot = { address: isText, slot: isText, txn_count: isCount, access_count: isCount }
const contract = {
  address: isText,
  total_slots: isCount,
  contended_slots: isCount,
  total_accesses: isCount,
  contention_score: isNumber,
}
const edge = { contract_a: isText, contract_b: isText, shared_txn_count: isCount }
const accessed = { count: isCount, error: isCount }
const isStorageKey: Check = (value) => listOf(isText)(value) && (value as unknown[]).length === 2

const shapes: Readonly<Record<FrameKind, Check>> = {
  TPS: isCount,
  ContentionData: objectOf(
    {
      block_number: isCount,
      block_wall_time_ns: isCount,
      total_tx_time_ns: isCount,
      parallel_efficiency_pct: isNumber,
      total_unique_slots: isCount,
      contended_slot_count: isCount,
      contention_ratio: isNumber,
      total_txn_count: isCount,
      top_contended_slots: listOf(objectOf(slot)),
      top_contended_contracts: listOf(objectOf(contract)),
      contract_edges: listOf(objectOf(edge)),
    },
    {
      written_contended_slot_count: isCount,
      critical_path_txn_count: isCount,
      block_hash: isText,
      at_ms: isNumber,
    },
  ),
  TopAccesses: objectOf({
    account: listOf(objectOf({ ...accessed, key: isText })),
    storage: listOf(objectOf({ ...accessed, key: isStorageKey })),
  }),
  Lifecycle: objectOf(
    { block_hash: isText, block_number: isCount, to_stage: isText, block_age_ms: isNumber },
    {
      from_stage: isText,
      time_in_previous_stage_ms: isNumber,
      txn_count: isCount,
      gas_used: isCount,
      at_ms: isNumber,
    },
  ),
  Gap: objectOf(
    { from: isCount, to: isCount },
    { at_ms: isNumber, from_block: isCount, to_block: isCount },
  ),
}

export function isPayload(kind: FrameKind, payload: Buffer): boolean {
  if (payload.length > payloadBytesMax || !isUtf8(payload)) return false
  try {
    if (!shapes[kind](JSON.parse(payload.toString('utf8')))) return false
    // Also what is in no shape must transcode, and `JSON.parse` hides a name that is repeated.
    jsonToMsgpack(payload)
    return true
  } catch {
    return false
  }
}
