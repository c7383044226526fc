// Shreds for tests: made by our own maker, or read from the recorded capture.
import { readFileSync } from 'node:fs'
import { readPcap } from '../../src/base/transport/pcap.ts'
import { Keypair } from '../../src/chain/solana/keypair.ts'
import { flagBits, flagsOf, indexOf, offsets } from '../../src/chain/solana/shred.ts'
import { ShredMaker } from '../../src/devnode/shred-feed.ts'
import { realData } from './real-data.ts'

export const testSeed = Uint8Array.from({ length: 32 }, (_, index) => index + 1)
export const testLeader = publicKeyOfSeed(testSeed)
export const testVersion = 4711
/** Payload of a whole set that is not the last of its slot. */
const setPayloadBytes = 32 * 963

/** Shreds of `sets` sets in each of `slots` slots from `firstSlot`, signed, payload random. */
export function makeShreds(about: {
  readonly slots: number
  readonly sets: number
  readonly firstSlot?: number
}): Uint8Array[] {
  const maker = new ShredMaker({ version: testVersion, sign: signerOf(testSeed) })
  const firstSlot = about.firstSlot ?? 1000
  const random = randomBytes(about.sets * setPayloadBytes, 7)
  return Array.from({ length: about.slots }, (_, place) => {
    const slot = firstSlot + place
    maker.startSlot({ slot, parent: slot - 1 })
    const batch = random.subarray(0, (about.sets - 1) * setPayloadBytes + 32 * 899)
    return maker.make(batch, { isLastInSlot: true, tick: 5 })
  }).flat()
}

export function publicKeyOfSeed(seed: Uint8Array): Uint8Array {
  return new Keypair(seed).publicKey
}

/** Signs with the key pair of a seed. */
export function signerOf(seed: Uint8Array): (root: Uint8Array) => Uint8Array {
  const keypair = new Keypair(seed)
  return (root) => keypair.sign(root)
}

/** The same bytes for the same seed (xorshift). */
export function randomBytes(length: number, seed: number): Uint8Array {
  const next = randomOf(seed)
  return Uint8Array.from({ length }, () => next() * 256)
}

export function randomOf(seed: number): () => number {
  let state = seed | 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

export function shuffled<T>(values: readonly T[], seed: number): T[] {
  const next = randomOf(seed)
  const out = [...values]
  for (let last = out.length - 1; last > 0; last -= 1) {
    const other = Math.floor(next() * (last + 1))
    const kept = out[last]!
    out[last] = out[other]!
    out[other] = kept
  }
  return out
}

export const demo = {
  pcap: realData('shreds/demo-shreds.pcap'),
  shreds: () =>
    readPcap(readFileSync(realData('shreds/demo-shreds.pcap').path))!.map(({ payload }) => payload),
  batch: () => readFileSync(realData('shreds/demo-shreds.bin').path),
  seed: () => readFileSync(realData('shreds/demo-shreds.key').path).subarray(0, 32),
  leader: () => readFileSync(realData('shreds/demo-shreds.key').path).subarray(32),
  version: 6051,
  chainedRoot: Uint8Array.from({ length: 32 }, (_, index) => ((index % 16) + 1) % 16),
}

/**
 * The batch that ends with the last of these data shreds, which are complete, in order, and begin
 * after a complete one or at index 0. Null when one is missing or the last is not marked.
 */
export function joinBatch(shreds: readonly Uint8Array[]): Uint8Array | null {
  const last = shreds.at(-1)
  if (last === undefined || (flagsOf(last) & flagBits.dataComplete) === 0) return null
  const first = indexOf(shreds[0]!)
  if (shreds.some((shred, offset) => indexOf(shred) !== first + offset)) return null
  // The size field counts headers and payload together.
  const end = (shred: Uint8Array) => Buffer.from(shred).readUInt16LE(offsets.size)
  return Buffer.concat(shreds.map((shred) => shred.subarray(offsets.dataPayload, end(shred))))
}
