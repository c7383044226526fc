// The batches of an Alpenglow block: their order, and the bytes of each marker.
import { expect, it } from 'vitest'
import { type AlpenglowBlock, alpenglowBatches } from '../../../src/devnode/block-markers.ts'

const id = (value: number) => new Uint8Array(32).fill(value)
const entry = (index: number, executedTransactionCount: number) => ({
  index,
  numHashes: 1,
  hash: id(9),
  executedTransactionCount,
  startingTransactionIndex: 0,
})
const block: AlpenglowBlock = {
  entries: [entry(0, 0), entry(1, 0)],
  transactions: [],
  parent: { slot: 7, blockId: id(7) },
  handover: null,
  genesis: null,
  bankHash: id(5),
  timeNs: 1_700_000_000_000_000_001n,
  userAgent: 'agent',
}

/** Kind of each batch: the variant of a marker, or the number of entries. */
function kindsOf(batches: readonly Uint8Array[]): string[] {
  return batches.map((bytes) => {
    const batch = Buffer.from(bytes)
    const entries = batch.readBigUInt64LE(0)
    if (entries > 0n) return `${entries} entries`
    expect(batch.readUInt16LE(8)).toBe(1)
    expect(batch.readUInt16LE(11)).toBe(batch.length - 13)
    return ['footer', 'header', 'update parent', 'genesis'][batch[10]!]!
  })
}

it('is a header, entries, a footer and one tick alone', () => {
  const batches = alpenglowBatches(block)
  expect(kindsOf(batches)).toEqual(['header', '1 entries', 'footer', '1 entries'])
  const header = Buffer.from(batches[0]!)
  expect(header).toHaveLength(54)
  expect([header[13], header.readBigUInt64LE(14)]).toEqual([1, 7n])
  expect(header.subarray(22).equals(id(7))).toBe(true)
  expect(kindsOf(alpenglowBatches({ ...block, entries: [entry(0, 0)] }))).toEqual([
    'header',
    'footer',
    '1 entries',
  ])
})

it('has the void part before UpdateParent, and the genesis marker right after the header', () => {
  const handover = { parent: { slot: 5, blockId: id(4) }, entries: [entry(0, 0)], transactions: [] }
  const genesis = { slot: 7, blockId: id(7) }
  const batches = alpenglowBatches({ ...block, handover, genesis })
  expect(kindsOf(batches)).toEqual([
    ...['header', 'genesis', '1 entries', 'update parent', '1 entries', 'footer', '1 entries'],
  ])
  expect(Buffer.from(batches[0]!).readBigUInt64LE(14)).toBe(5n)
  expect(Buffer.from(batches[3]!).readBigUInt64LE(14)).toBe(7n)
  // Slot, id, signature, length of the bitmap, bitmap.
  expect(batches[1]).toHaveLength(13 + 8 + 32 + 192 + 8 + 1)
})

it('names bank hash, time, user agent and the certificate of its parent in the footer', () => {
  const footer = Buffer.from(alpenglowBatches(block)[2]!).subarray(13)
  expect(footer[0]).toBe(1)
  expect(footer.subarray(1, 33).equals(id(5))).toBe(true)
  expect(footer.readBigUInt64LE(33)).toBe(block.timeNs)
  expect(footer.subarray(42, 42 + footer[41]!).toString()).toBe('agent')
  const certificate = footer.subarray(47)
  expect([certificate[0], certificate.readBigUInt64LE(1)]).toEqual([1, 7n])
  // Aggregate, no notarization aggregate, and no reward certificates.
  expect(certificate.subarray(41)).toHaveLength(96 + 2 + 1 + 3)
  expect([...certificate.subarray(-3)]).toEqual([0, 0, 0])
})
