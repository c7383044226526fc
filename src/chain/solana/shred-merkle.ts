// Computes the merkle root of a set from one shred, and builds the tree and proofs of all 64.
// The leader signs the root; a shred whose proof leads to it is the leader's.
//
//   root 32 ── node ── node ── … six layers … ── leaf = hash of the shred without its signature,
//                                                       proof and retransmitter signature
import { createHash } from 'node:crypto'
import { finish, type Steps } from '../../base/steps.ts'
import {
  leafOf,
  offsets,
  proofAt,
  proofEntries,
  proofEntryBytes,
  setShreds,
  shredBytesOf,
} from './shred.ts'

const leafPrefix = Buffer.from('\u0000SOLANA_MERKLE_SHREDS_LEAF', 'latin1')
const nodePrefix = Buffer.from('\u0001SOLANA_MERKLE_SHREDS_NODE', 'latin1')
const leaves = 2 * setShreds
/** Hashes per step of building a tree. */
const leavesPerStep = 8
const nodesPerStep = 16

export interface MerkleTree {
  readonly root: Buffer
  readonly layers: readonly Buffer[][]
}

/** The root that the proof inside a well-formed shred leads to. */
export function rootOf(shred: Uint8Array): Buffer {
  const proof = proofAt(shred[offsets.variant]!)
  let hash = leafHash(shred)
  let index = leafOf(shred)
  for (let layer = 0; layer < proofEntries; layer += 1) {
    const start = proof + layer * proofEntryBytes
    const sibling = shred.subarray(start, start + proofEntryBytes)
    hash = (index & 1) === 0 ? nodeHash(hash, sibling) : nodeHash(sibling, hash)
    index >>= 1
  }
  return hash
}

/** Builds the tree over all 64 shreds of a set, in the order of their leaves. */
export function treeOf(shreds: readonly Uint8Array[]): MerkleTree {
  return finish(buildTree(shreds))
}

/** The same in steps of a few hashes. */
export function* buildTree(shreds: readonly Uint8Array[]): Steps<MerkleTree> {
  let layer: Buffer[] = []
  for (const shred of shreds) {
    layer.push(leafHash(shred))
    if (layer.length % leavesPerStep === 0) yield
  }
  const layers: Buffer[][] = []
  let nodes = 0
  while (layer.length > 1) {
    layers.push(layer)
    const above: Buffer[] = []
    for (let at = 0; at < layer.length; at += 2) {
      above.push(nodeHash(layer[at]!, layer[at + 1]!))
      nodes += 1
      if (nodes % nodesPerStep === 0) yield
    }
    layer = above
  }
  return { root: layer[0]!, layers }
}

/** Writes into a shred the proof of its leaf. */
export function writeProof(shred: Uint8Array, leaf: number, layers: readonly Buffer[][]): void {
  let at = proofAt(shred[offsets.variant]!)
  for (const [depth, layer] of layers.entries()) {
    const sibling = layer[(leaf >> depth) ^ 1]!
    shred.set(sibling.subarray(0, proofEntryBytes), at)
    at += proofEntryBytes
  }
}

function leafHash(shred: Uint8Array): Buffer {
  const variant = shred[offsets.variant]!
  const end = Math.min(proofAt(variant), shredBytesOf(variant))
  const covered = shred.subarray(offsets.variant, end)
  return createHash('sha256').update(leafPrefix).update(covered).digest()
}

/** Only the first 20 bytes of a child go into its parent; only the root keeps all 32. */
function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  return createHash('sha256')
    .update(nodePrefix)
    .update(left.subarray(0, proofEntryBytes))
    .update(right.subarray(0, proofEntryBytes))
    .digest()
}

/** Leaves of a full tree; a set has no other size. */
export const treeLeaves = leaves
