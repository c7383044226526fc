// Tests the JSON text of a block: its content, its pieces and its cache.
import { describe, expect, it } from 'vitest'
import {
  blockEnd,
  blockStart,
  EventType,
  txnAccessListEntry,
  txnAuthListEntry,
  txnHeaderStart,
} from '../../../../src/chain/evm/event-payload.ts'
import { writeU32, writeU64 } from '../../../../src/chain/evm/words.ts'
import { TextCache } from '../../../../src/streams/analysis/block-text.ts'
import { ExecutedBlock } from '../../../../src/streams/analysis/executed-block.ts'
import { transactionsOf } from '../../../testkit/slow-transactions.ts'
import { wholeText } from '../../../testkit/whole-text.ts'

/** A small generator with a seed, so that a failure can be repeated. */
function randomBytes(seed: number): (count: number) => Uint8Array {
  let state = seed
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state >>> 24
  }
  return (count) => Uint8Array.from({ length: count }, next)
}

function record(type: number, transaction: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array((16 + payload.length + 7) & ~7)
  writeU32(bytes, 0, type)
  writeU32(bytes, 4, transaction + 1)
  writeU32(bytes, 8, payload.length)
  bytes.set(payload, 16)
  return bytes
}

/** Records of transactions of all types, with fees small and beyond 2^53, in an odd order. */
function recordsOf(count: number, seed: number): Uint8Array {
  const random = randomBytes(seed)
  const small = (max: number) => random(1)[0]! % max
  const all: Uint8Array[] = []
  for (let index = count - 1; index >= 0; index--) {
    const dataBytes = small(3) === 0 ? 200 + small(200) : small(5)
    const blobs = small(3)
    const header = random(txnHeaderStart.size + dataBytes + blobs * 32)
    header[txnHeaderStart.type] = small(5)
    header[txnHeaderStart.parity] = small(2)
    header[txnHeaderStart.isCreation] = small(2)
    writeU64(header, txnHeaderStart.nonce, small(200) * 1_000_003)
    writeU64(header, txnHeaderStart.gasLimit, small(200))
    for (const at of [txnHeaderStart.maxFee, txnHeaderStart.maxPriorityFee])
      if (small(2) === 0) {
        header.fill(0, at, at + 32)
        writeU64(header, at, small(250))
      }
    if (small(2) === 0) header.fill(0, txnHeaderStart.chainId, txnHeaderStart.chainId + 32)
    if (small(3) === 0) header.fill(0, txnHeaderStart.r, txnHeaderStart.r + 31)
    writeU32(header, txnHeaderStart.dataLength, dataBytes)
    writeU32(header, txnHeaderStart.blobCount, blobs)
    for (let entry = small(3); entry > 0; entry--) {
      const keys = small(3)
      const access = random(txnAccessListEntry.size + keys * 32)
      writeU32(access, txnAccessListEntry.keyCount, keys)
      all.push(record(EventType.TxnAccessListEntry, index, access))
      const auth = random(txnAuthListEntry.size)
      writeU64(auth, txnAuthListEntry.nonce, small(200))
      all.push(record(EventType.TxnAuthListEntry, index, auth))
    }
    if (index % 17 !== 3) all.push(record(EventType.TxnHeaderStart, index, header))
  }
  return Buffer.concat(all)
}

function blockOf(records: Uint8Array, memory = new TextCache(1e9)): ExecutedBlock {
  const start = new Uint8Array(blockStart.size)
  writeU64(start, blockStart.blockNumber, 77)
  writeU64(start, blockStart.baseFee, 100)
  return new ExecutedBlock(start, new Uint8Array(blockEnd.size), records, memory)
}

describe('block text', () => {
  it.each([1, 2, 3, 4])('is what a slow, obvious version writes (seed %d)', (seed) => {
    const records = recordsOf(200, seed)
    const block = blockOf(records)
    const { ethHash: blockHash, number: blockNumber } = block
    const expected = transactionsOf(records, { blockHash, blockNumber, baseFee: 100n })
    const text = block.text(true)
    const pieces = [...Array(1000).keys()].flatMap((index) => text.piece(index) ?? [])
    // Byte for byte, so that the order of the fields counts too.
    expect(Buffer.concat(pieces).toString()).toContain(
      `,"transactions":${JSON.stringify(expected)}}`,
    )
    const hashes = expected.map(({ hash }) => hash)
    expect(wholeText(block.text(false)).transactions).toEqual(hashes)
  })

  it('is complete JSON for a block without transactions', () => {
    expect(wholeText(blockOf(new Uint8Array(0)).text(true))).toMatchObject({
      number: '0x4d',
      transactions: [],
    })
  })

  it('has many pieces of bounded length, each built once', () => {
    const text = blockOf(recordsOf(2000, 5)).text(true)
    const pieces = [...Array(1000).keys()].flatMap((index) => text.piece(index) ?? [])
    expect(pieces.length).toBeGreaterThan(30)
    for (const piece of pieces) expect(piece.length).toBeLessThan(40_000)
    expect(text.piece(7)).toBe(pieces[7])
    expect(text.estimatedBytes).toBe(pieces.reduce((sum, piece) => sum + piece.length, 0))
  })

  it('has an upper estimate of its size before it is built', () => {
    for (const full of [true, false]) {
      const text = blockOf(recordsOf(300, 6)).text(full)
      const estimate = text.estimatedBytes
      wholeText(text)
      expect(estimate).toBeGreaterThanOrEqual(text.estimatedBytes)
    }
  })
})

describe('text cache', () => {
  it('stays within its bound, and rebuilds evicted text identically', () => {
    const memory = new TextCache(300_000)
    const blocks = [1, 2, 3, 4].map((seed) => blockOf(recordsOf(150, seed), memory))
    const first = blocks.map((block) => wholeText(block.text(true)))
    expect(memory.bytes).toBeGreaterThan(100_000)
    expect(memory.bytes).toBeLessThanOrEqual(300_000)
    expect(blocks.map((block) => wholeText(block.text(true)))).toEqual(first)
    expect(memory.bytes).toBeLessThanOrEqual(300_000)
  })

  it('frees the texts of an evicted block; reading an unfinished text throws', () => {
    const memory = new TextCache(1e9)
    const block = blockOf(recordsOf(150, 1), memory)
    const text = block.text(true)
    expect(text.piece(0)).not.toBeNull()
    block.drop()
    expect(memory.bytes).toBe(0)
    expect(() => text.piece(1)).toThrow('no longer kept')
  })
})
