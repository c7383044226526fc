// Collects the shreds of one erasure set and rebuilds the lost ones, in small steps.
// Thread: shred worker (with shredstream.recover). Keeps copies.
import type { Steps } from '../../base/steps.ts'
import {
  chainedRootAt,
  codeShredBytes,
  dataShredBytes,
  flawOf,
  flaws,
  indexOf,
  isCodeVariant,
  isResigned,
  leafOf,
  offsets,
  proofAt,
  setShreds,
  shredBytesOf,
  signatureBytes,
  variants,
  versionOf,
} from './shred.ts'
import { rebuildShards } from './shred-erasure.ts'
import { buildTree, rootOf, treeLeaves, writeProof } from './shred-merkle.ts'

export class ShredSet {
  readonly #shreds: (Uint8Array | null)[] = new Array(treeLeaves).fill(null)
  #count = 0
  #isDone = false

  get count(): number {
    return this.#count
  }

  /** True once it is complete, rebuilt, or given up. */
  get isDone(): boolean {
    return this.#isDone
  }

  /** True when enough shreds arrived to rebuild the rest and rebuilding has not begun. */
  get isRipe(): boolean {
    return !this.#isDone && this.#count >= setShreds
  }

  /** Keeps a copy of a well-formed shred of this set. */
  add(bytes: Uint8Array, at: number): void {
    if (this.#isDone) return
    const leaf = leafOf(bytes, at)
    if (this.#shreds[leaf] !== null) return
    const length = shredBytesOf(bytes[at + offsets.variant]!)
    this.#shreds[leaf] = Uint8Array.from(bytes.subarray(at, at + length))
    this.#count += 1
    if (this.#count === treeLeaves) this.#isDone = true
  }

  /**
   * Rebuilds the missing shreds, exactly as the leader made them (a retransmitter's signature is
   * copied from a shred that arrived). Null when the shreds do not form one set. Works once; a step
   * is at most one shard or a few hashes, since a whole set takes milliseconds.
   */
  *rebuild(): Steps<Uint8Array[] | null> {
    this.#isDone = true
    const known = this.#shreds.filter((shred) => shred !== null)
    const sample = known[0]!
    const resigned = isResigned(sample[offsets.variant]!)
    const root = rootOf(sample)
    yield
    const shards = this.#shreds.map((shred) => (shred === null ? null : shardOf(shred)))
    if (new Set(shards.map((shard) => shard?.length ?? 0)).size > 2) return null
    if (!(yield* rebuildShards(shards))) return null
    const base = this.#codeBase()
    const whole = this.#shreds.map(
      (shred, leaf) => shred ?? frameShard(shards[leaf]!, leaf, { sample, resigned, base }),
    )
    yield
    const tree = yield* buildTree(whole)
    // The root covers every header and byte, so equality proves that the rebuilt shreds are right.
    if (!tree.root.equals(root)) return null
    const rebuilt: Uint8Array[] = []
    for (const [leaf, shred] of whole.entries()) {
      if (this.#shreds[leaf] !== null) continue
      writeProof(shred, leaf, tree.layers)
      if (flawOf(shred, 0, shred.length, versionOf(sample)) !== flaws.none) return null
      rebuilt.push(shred)
    }
    return rebuilt
  }

  /** Frees the kept shreds; the set stays done. */
  release(): void {
    this.#isDone = true
    this.#shreds.fill(null)
  }

  /** Index of the set's first code shred: from any code shred, else the set's own index. */
  #codeBase(): number {
    for (const [leaf, shred] of this.#shreds.entries())
      if (leaf >= setShreds && shred !== null) return indexOf(shred) - (leaf - setShreds)
    const data = this.#shreds.findIndex((shred) => shred !== null)
    return indexOf(this.#shreds[data]!) - data
  }
}

interface Frame {
  readonly sample: Uint8Array
  readonly resigned: boolean
  readonly base: number
}

function shardOf(shred: Uint8Array): Uint8Array {
  const variant = shred[offsets.variant]!
  const start = isCodeVariant(variant) === true ? offsets.codePayload : signatureBytes
  return shred.subarray(start, chainedRootAt(variant))
}

/** A shred around a rebuilt shard; its proof is still to be written. */
function frameShard(shard: Uint8Array, leaf: number, frame: Frame): Uint8Array {
  const { sample, resigned } = frame
  const isCode = leaf >= setShreds
  const shred = new Uint8Array(isCode ? codeShredBytes : dataShredBytes)
  const dataVariant = resigned ? variants.dataResigned : variants.data
  const codeVariant = resigned ? variants.codeResigned : variants.code
  const variant = isCode ? codeVariant : dataVariant
  const sampleVariant = sample[offsets.variant]!
  shred.set(sample.subarray(0, signatureBytes))
  if (isCode) {
    // Slot, version and set are those of any shred of the set.
    shred.set(sample.subarray(offsets.slot, offsets.parent), offsets.slot)
    const view = new DataView(shred.buffer)
    shred[offsets.variant] = variant
    view.setUint32(offsets.index, frame.base + leaf - setShreds, true)
    view.setUint16(offsets.dataCount, setShreds, true)
    view.setUint16(offsets.codeCount, setShreds, true)
    view.setUint16(offsets.position, leaf - setShreds, true)
    shred.set(shard, offsets.codePayload)
  } else {
    shred.set(shard, signatureBytes)
  }
  const chained = chainedRootAt(sampleVariant)
  shred.set(sample.subarray(chained, proofAt(sampleVariant)), chainedRootAt(variant))
  if (resigned)
    shred.set(
      sample.subarray(shredBytesOf(sampleVariant) - signatureBytes, shredBytesOf(sampleVariant)),
      shred.length - signatureBytes,
    )
  return shred
}
