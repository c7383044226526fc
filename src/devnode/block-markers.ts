// The parts of an Alpenglow block as its shreds carry them: markers between batches of entries.
//
//   header | genesis | entries, void | UpdateParent | entries | footer | one tick
//            (child of G)  (handover)   (handover)
//
// A marker is a batch of its own, with 0 entries (all numbers are little-endian):
//
//   entry count u64 = 0 | version u16 = 1 | variant u8 | length u16 | body
//
// Header and UpdateParent: version u8 | parent slot u64 | parent block id 32. Footer: version u8 |
// bank hash 32 | producer's time u64, ns | length u8, user agent | three options. Signatures are
// zeros: no consensus signs here.
import type { EntryContent, TransactionContent } from '../chain/solana/geyser-decode.ts'
import { encodeEntries } from './shred-feed.ts'

export interface BlockPoint {
  readonly slot: number
  /** 32 bytes. */
  readonly blockId: Uint8Array
}

export interface AlpenglowBlock {
  readonly entries: readonly EntryContent[]
  readonly transactions: readonly TransactionContent[]
  readonly parent: BlockPoint
  /** What the leader sent over another parent before it changed to that one; null for nothing. */
  readonly handover: {
    readonly parent: BlockPoint
    readonly entries: readonly EntryContent[]
    readonly transactions: readonly TransactionContent[]
  } | null
  /** The block that Alpenglow began after, in its child alone; null in all others. */
  readonly genesis: BlockPoint | null
  readonly bankHash: Uint8Array
  readonly timeNs: bigint
  readonly userAgent: string
}

export const markerVariants = { footer: 0, header: 1, updateParent: 2, genesis: 3 } as const

const markerVersion = 1
const bodyVersion = 1
const blsBytes = 192
const blsCompressedBytes = 96
const bitmap = Uint8Array.of(0xff)
const none = Uint8Array.of(0)

/** The batches of a block, in order; the last one is the tick alone. */
export function alpenglowBatches(block: AlpenglowBlock): Uint8Array[] {
  const { entries, transactions, parent, handover, genesis } = block
  const batches = [pointMarker(markerVariants.header, handover?.parent ?? parent)]
  if (genesis !== null) batches.push(genesisMarker(genesis))
  if (handover !== null) {
    batches.push(encodeEntries(handover.entries, handover.transactions))
    batches.push(pointMarker(markerVariants.updateParent, parent))
  }
  const content = entries.slice(0, -1)
  if (content.length > 0) batches.push(encodeEntries(content, transactions))
  return [...batches, footerMarker(block), encodeEntries(entries.slice(-1), transactions)]
}

function pointMarker(variant: number, point: BlockPoint): Uint8Array {
  return marker(variant, [Uint8Array.of(bodyVersion), ...pointBytes(point)])
}

function genesisMarker(point: BlockPoint): Uint8Array {
  const signature = new Uint8Array(blsBytes)
  return marker(markerVariants.genesis, [
    ...pointBytes(point),
    signature,
    number(8, bitmap.length),
    bitmap,
  ])
}

function footerMarker({ parent, bankHash, timeNs, userAgent }: AlpenglowBlock): Uint8Array {
  const agent = Buffer.from(userAgent).subarray(0, 255)
  const time = Buffer.alloc(8)
  time.writeBigUInt64LE(timeNs)
  const aggregate = [new Uint8Array(blsCompressedBytes), number(2, bitmap.length), bitmap]
  const finalization = [Uint8Array.of(1), ...pointBytes(parent), ...aggregate, none]
  return marker(markerVariants.footer, [
    Uint8Array.of(bodyVersion),
    bankHash,
    time,
    Uint8Array.of(agent.length),
    agent,
    ...finalization,
    // Neither a skip nor a notarization reward certificate.
    none,
    none,
  ])
}

function pointBytes({ slot, blockId }: BlockPoint): Uint8Array[] {
  return [number(8, slot), blockId]
}

function marker(variant: number, parts: readonly Uint8Array[]): Uint8Array {
  const body = Buffer.concat(parts)
  return Buffer.concat([
    number(8, 0),
    number(2, markerVersion),
    Uint8Array.of(variant),
    number(2, body.length),
    body,
  ])
}

/** Little-endian, of 2 or 8 bytes. */
function number(bytes: 2 | 8, value: number): Uint8Array {
  const buffer = Buffer.alloc(bytes)
  if (bytes === 2) buffer.writeUInt16LE(value)
  else buffer.writeBigUInt64LE(BigInt(value))
  return buffer
}
