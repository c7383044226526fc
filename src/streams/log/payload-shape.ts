// Decides whether bytes from outside are the payload of a kind, so that nobody who reads a stored
// frame has to: clients in both encodings, REST, meters, rows of the index.
import { isUtf8 } from 'node:buffer'
import { type Check, isCount, isNumber, isText, listOf, objectOf } from '../../base/shape.ts'
import type { FrameKind } from './encoded.ts'
import { jsonToMsgpack } from './json-to-msgpack.ts'

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
