import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  accountAccess,
  blockEnd,
  blockStart,
  computedPayloadSize,
  EventType,
  isWellFormed,
  storageAccess,
  txnCallFrame,
  txnHeaderStart,
  txnLog,
} from '../../../../src/chain/evm/event-payload.ts'
import {
  contentTypeExecution,
  descriptorOffset,
  oldSchemaHash,
  parseRingHeader,
  payloadOffset,
  ringHeader,
  schemaHash,
} from '../../../../src/chain/evm/event-ring.ts'
import { bytesOfHex } from '../../../../src/chain/evm/hex.ts'
import { writeU16, writeU32, writeU64 } from '../../../../src/chain/evm/words.ts'

function header(change: (bytes: Uint8Array) => void = () => {}): Uint8Array {
  const bytes = new Uint8Array(ringHeader.usedBytes)
  bytes.set(Buffer.from('RING01'))
  writeU16(bytes, ringHeader.contentType, contentTypeExecution)
  bytes.set(bytesOfHex(schemaHash)!, ringHeader.schemaHash)
  writeU64(bytes, ringHeader.capacity, 2 ** 16)
  writeU64(bytes, ringHeader.payloadBytes, 2 ** 27)
  change(bytes)
  return bytes
}

function refusalOf(bytes: Uint8Array): { code: string; message: string } {
  const parsed = parseRingHeader(bytes)
  if (parsed.ok) throw new Error('accepted')
  return parsed.refusal
}

describe('ring header', () => {
  test('yields the offsets of descriptors and payloads', () => {
    const parsed = parseRingHeader(header())
    if (!parsed.ok) throw new Error(parsed.refusal.message)
    const ring = parsed.value
    expect(ring.payloadBase).toBe(2_097_152 + 64 * 65_536)
    expect(ring.fileBytes).toBe(ring.payloadBase + 2 ** 27)
    expect(descriptorOffset(ring, 1)).toBe(2_097_152)
    expect(descriptorOffset(ring, 65_537)).toBe(2_097_152)
    expect(payloadOffset(ring, 2 ** 27 + 16)).toBe(ring.payloadBase + 16)
  })

  test('rejects a wrong magic, content type or schema with a message that names it', () => {
    expect(refusalOf(header((bytes) => bytes.fill(0, 0, 6))).code).toBe('ring_magic')
    const other = refusalOf(header((bytes) => writeU16(bytes, ringHeader.contentType, 1)))
    expect(other.code).toBe('ring_content_type')
    expect(other.message).toContain('content type 1')
    const old = refusalOf(
      header((bytes) => bytes.set(bytesOfHex(oldSchemaHash)!, ringHeader.schemaHash)),
    )
    expect(old.code).toBe('ring_schema_old')
    expect(old.message).toContain(oldSchemaHash)
    const unknown = refusalOf(header((bytes) => bytes.fill(7, 8, 40)))
    expect(unknown.code).toBe('ring_schema_unknown')
    expect(unknown.message).toContain('07'.repeat(32))
  })

  test('rejects sizes that are not a power of two or out of bounds', () => {
    for (const capacity of [0, 1, 65_537, 2 ** 33])
      expect(
        refusalOf(header((bytes) => writeU64(bytes, ringHeader.capacity, capacity))).code,
      ).toBe('ring_geometry')
    for (const size of [0, 2 ** 26, 2 ** 27 + 16])
      expect(
        refusalOf(header((bytes) => writeU64(bytes, ringHeader.payloadBytes, size))).code,
      ).toBe('ring_geometry')
  })

  test('rejects random and truncated bytes without throwing', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(parseRingHeader(bytes).ok).toBe(false)
      }),
    )
    for (let length = 0; length < ringHeader.usedBytes; length++)
      expect(refusalOf(header().subarray(0, length)).code).toBe('ring_truncated')
  })
})

describe('payload sizes', () => {
  test('of fixed fields match the schema', () => {
    expect(blockStart.size).toBe(528)
    expect(blockEnd.gasUsed + 8).toBe(blockEnd.size)
    expect(storageAccess.endValue + 32 + 1).toBe(storageAccess.size)
    expect(accountAccess.transientKeyCount + 4).toBe(accountAccess.size)
  })

  test('of variable fields come from the payload itself', () => {
    const call = new Uint8Array(txnCallFrame.size + 5)
    writeU64(call, txnCallFrame.inputLength, 3)
    writeU64(call, txnCallFrame.returnLength, 2)
    expect(isWellFormed(EventType.TxnCallFrame, call)).toBe(true)
    const log = new Uint8Array(txnLog.size + 64 + 7)
    log[txnLog.topicCount] = 2
    writeU32(log, txnLog.dataLength, 7)
    expect(isWellFormed(EventType.TxnLog, log)).toBe(true)
    const txn = new Uint8Array(txnHeaderStart.size + 10 + 32)
    writeU32(txn, txnHeaderStart.dataLength, 10)
    writeU32(txn, txnHeaderStart.blobCount, 1)
    expect(isWellFormed(EventType.TxnHeaderStart, txn)).toBe(true)
    expect(isWellFormed(EventType.TxnHeaderStart, txn.subarray(1))).toBe(false)
  })

  test('are computed for random payloads without throwing', () => {
    fc.assert(
      fc.property(fc.nat(300), fc.uint8Array({ maxLength: 600 }), (type, payload) => {
        const size = computedPayloadSize(type, payload)
        expect(size === -1 || size >= 0).toBe(true)
      }),
    )
    expect(computedPayloadSize(0, new Uint8Array(600))).toBe(-1)
    expect(computedPayloadSize(25, new Uint8Array(600))).toBe(-1)
  })
})
