// Collects the shreds of one erasure set and rebuilds the lost ones, in small steps.
// Thread: shred worker (with shredstream.recover). Keeps copies.
import { assert } from '../../base/errors.ts'
import { finish, type Steps } from '../../base/steps.ts'
import {
  buildTree,
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
  rootOf,
  setShreds,
  shredBytesOf,
  signatureBytes,
  treeLeaves,
  variants,
  versionOf,
  writeProof,
} from './shred.ts'

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

// Computes parity and rebuilds lost shards of a set: Reed-Solomon over GF(2^8), 32 + 32 shards.
// Polynomial 0x11D, generator 2; the matrix is Vandermonde times the inverse of
// its top square, so that the first 32 rows are the identity (as in the cluster's own encoder).

const size = setShreds
const total = 2 * size
const polynomial = 0x11d
/** Columns of a matrix that one step of its inversion processes. */
const columnsPerStep = 8

/** `product[a * 256 + b]`: 64 KiB, one look-up for each byte of a shard. */
const product = productTable()
const matrix = systematicMatrix()

/** Fills the 32 parity shards from the 32 data shards; all have the same length. */
export function encodeParity(data: readonly Uint8Array[], parity: readonly Uint8Array[]): void {
  assert(data.length === size && parity.length === size, 'a set has 32 data and 32 parity shards')
  for (const [row, out] of parity.entries()) combine(matrix[size + row]!, data, out)
}

/**
 * Fills every null of the 64 shards (data, then parity) from any 32 that are present.
 * False when fewer are present. A step makes at most one shard.
 */
function* rebuildShards(shards: (Uint8Array | null)[]): Steps<boolean> {
  const rows: number[] = []
  for (let row = 0; row < total && rows.length < size; row += 1)
    if (shards[row] !== null) rows.push(row)
  if (rows.length < size) return false
  const present = rows.map((row) => shards[row]!)
  const bytes = present[0]!.length
  const missing = range(size).filter((row) => shards[row] === null)
  if (missing.length > 0) {
    const inverse = yield* invert(rows.map((row) => matrix[row]!))
    for (const row of missing) {
      const out = new Uint8Array(bytes)
      combine(inverse[row]!, present, out)
      shards[row] = out
      yield
    }
  }
  const data = shards.slice(0, size) as Uint8Array[]
  for (let row = size; row < total; row += 1) {
    if (shards[row] !== null) continue
    const out = new Uint8Array(bytes)
    combine(matrix[row]!, data, out)
    shards[row] = out
    yield
  }
  return true
}

/** out = sum of factor x shard. Four shards a pass, so that `out` is read and written less. */
function combine(factors: Uint8Array, shards: readonly Uint8Array[], out: Uint8Array): void {
  out.fill(0)
  for (let first = 0; first < size; first += 4) {
    const a = product.subarray(factors[first]! << 8, (factors[first]! + 1) << 8)
    const b = product.subarray(factors[first + 1]! << 8, (factors[first + 1]! + 1) << 8)
    const c = product.subarray(factors[first + 2]! << 8, (factors[first + 2]! + 1) << 8)
    const d = product.subarray(factors[first + 3]! << 8, (factors[first + 3]! + 1) << 8)
    const p = shards[first]!
    const q = shards[first + 1]!
    const r = shards[first + 2]!
    const s = shards[first + 3]!
    for (let at = 0; at < out.length; at += 1)
      out[at]! ^= a[p[at]!]! ^ b[q[at]!]! ^ c[r[at]!]! ^ d[s[at]!]!
  }
}

function productTable(): Uint8Array {
  const exponent = new Uint8Array(512)
  const logarithm = new Uint8Array(256)
  let value = 1
  for (let power = 0; power < 255; power += 1) {
    exponent[power] = value
    exponent[power + 255] = value
    logarithm[value] = power
    value <<= 1
    if (value > 255) value ^= polynomial
  }
  const table = new Uint8Array(256 * 256)
  for (let a = 1; a < 256; a += 1)
    for (let b = 1; b < 256; b += 1) table[(a << 8) | b] = exponent[logarithm[a]! + logarithm[b]!]!
  return table
}

function systematicMatrix(): Uint8Array[] {
  const vandermonde = range(total).map((row) => {
    const powers = new Uint8Array(size)
    powers[0] = 1
    for (let column = 1; column < size; column += 1)
      powers[column] = product[(powers[column - 1]! << 8) | row]!
    return powers
  })
  const inverse = finish(invert(vandermonde.slice(0, size)))
  return vandermonde.map((row) => {
    const out = new Uint8Array(size)
    combine(row, inverse, out)
    return out
  })
}

/** Gauss-Jordan; any 32 rows of the matrix are independent, so there is always a pivot. */
function* invert(rows: readonly Uint8Array[]): Steps<Uint8Array[]> {
  const left = rows.map((row) => Uint8Array.from(row))
  const right = range(size).map((row) => new Uint8Array(size).fill(1, row, row + 1))
  for (let column = 0; column < size; column += 1) {
    if (column % columnsPerStep === columnsPerStep - 1) yield
    let pivot = column
    while (pivot < size && left[pivot]![column] === 0) pivot += 1
    assert(pivot < size, 'rows of the matrix are independent')
    swap(left, column, pivot)
    swap(right, column, pivot)
    const factor = reciprocal(left[column]![column]!)
    scale(left[column]!, factor)
    scale(right[column]!, factor)
    for (let row = 0; row < size; row += 1) {
      const times = left[row]![column]!
      if (row === column || times === 0) continue
      addScaled(left[row]!, left[column]!, times)
      addScaled(right[row]!, right[column]!, times)
    }
  }
  return right
}

function reciprocal(value: number): number {
  return product.subarray(value << 8, (value + 1) << 8).indexOf(1)
}

function scale(row: Uint8Array, factor: number): void {
  for (let at = 0; at < size; at += 1) row[at] = product[(factor << 8) | row[at]!]!
}

function addScaled(row: Uint8Array, other: Uint8Array, factor: number): void {
  for (let at = 0; at < size; at += 1) row[at]! ^= product[(factor << 8) | other[at]!]!
}

function swap(rows: Uint8Array[], a: number, b: number): void {
  const kept = rows[a]!
  rows[a] = rows[b]!
  rows[b] = kept
}

function range(length: number): number[] {
  return Array.from({ length }, (_, index) => index)
}
