// Packets from the network and captures: shreds, the entries in them, pcap files, ICMP errors.
import { ok } from 'node:assert'
import { pcapHeader, pcapRecord, readPcap } from '../../../src/base/transport/pcap.ts'
import { refuserOf } from '../../../src/base/transport/udp-send.ts'
import {
  chainedRootAt,
  dataCapacityOf,
  flagBits,
  flawOf,
  flaws,
  isResigned,
  leafOf,
  offsets,
  rootOf,
  setShreds,
  shredBytesOf,
} from '../../../src/chain/solana/shred.ts'
import { ShredSet } from '../../../src/chain/solana/shred-set.ts'
import { ShredTransactions } from '../../../src/loadtest/race/shred-transactions.ts'
import { makeShreds } from '../../testkit/shreds.ts'
import { sampleTransactions } from '../../testkit/solana-samples.ts'
import { same, type Target } from '../target.ts'

const set = makeShreds({ slots: 1, sets: 1 })
const dataShred = set[0]!

export const shred: Target = {
  bytesMax: 1300,
  words: [Uint8Array.of(0x96), Uint8Array.of(0x66), Uint8Array.of(0xb6), Uint8Array.of(0x76)],
  seeds: () => [set[0]!, set[setShreds - 1]!, set[setShreds]!],
  run(input) {
    if (flawOf(input, 0, input.length, 0) !== flaws.none) return
    const variant = input[offsets.variant]!
    ok(shredBytesOf(variant) <= input.length && chainedRootAt(variant) > 0, 'within the packet')
    const leaf = leafOf(input)
    ok(leaf >= 0 && leaf < 2 * setShreds, 'a leaf of the tree')
    rootOf(input)
    new ShredTransactions([]).add(input)
  },
  /** A set with this shred in it is rebuilt as it was, or not at all. */
  compare(input) {
    if (flawOf(input, 0, input.length, 0) !== flaws.none) return
    const leaf = leafOf(input)
    const kept = new ShredSet()
    kept.add(input, 0)
    for (const one of set.slice(0, setShreds + 1)) if (leafOf(one) !== leaf) kept.add(one, 0)
    const steps = kept.rebuild()
    let step = steps.next()
    while (step.done !== true) step = steps.next()
    for (const one of step.value ?? [])
      same(
        signedBytes(one),
        signedBytes(set.find((other) => leafOf(other) === leafOf(one))!),
        'as the leader made it',
      )
  },
}

/** All but a retransmitter's signature, which is nobody's before its shred is sent. */
function signedBytes(bytes: Uint8Array): Uint8Array {
  return isResigned(bytes[offsets.variant]!) ? bytes.subarray(0, bytes.length - 64) : bytes
}

/** A batch of entries, in shreds of its own. */
export const entries: Target = {
  bytesMax: 6_000,
  words: [Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0), Uint8Array.of(0x80), new Uint8Array(48)],
  seeds: () =>
    sampleTransactions().map(({ bytes }) => {
      const head = Buffer.alloc(8 + 48)
      head.writeBigUInt64LE(2n)
      head.writeBigUInt64LE(2n, 48)
      const tick = Buffer.alloc(48)
      return Buffer.concat([head, bytes, bytes, tick])
    }),
  run(input) {
    const found = new ShredTransactions([])
    const capacity = dataCapacityOf(dataShred[offsets.variant]!)
    const count = Math.max(1, Math.ceil(input.length / capacity))
    let signatures = 0
    for (let index = 0; index < count; index++) {
      const payload = input.subarray(index * capacity, (index + 1) * capacity)
      const made = shredOf(payload, index, index === count - 1)
      for (const { signature } of found.add(made)) {
        same(signature.length, 64, 'a signature')
        signatures++
      }
    }
    ok(signatures * 64 <= input.length, 'signatures are in the entries')
  },
}

function shredOf(payload: Uint8Array, index: number, isLast: boolean): Buffer {
  const made = Buffer.from(dataShred)
  made.writeUInt32LE(index, offsets.index)
  made[offsets.flags] = isLast ? flagBits.dataComplete : 0
  made.writeUInt16LE(offsets.dataPayload + payload.length, offsets.size)
  made.set(payload, offsets.dataPayload)
  return made
}

export const packets: Target = {
  words: [
    Uint8Array.of(0xd4, 0xc3, 0xb2, 0xa1),
    Uint8Array.of(0xa1, 0xb2, 0x3c, 0x4d),
    '\x08\0',
    '\x86\xdd',
  ],
  seeds: () => {
    const refused = Buffer.alloc(48)
    refused.writeBigUInt64LE(48n)
    refused.set([11, 0, 0, 0, 111, 0, 0, 0, 2, 3, 3], 12)
    refused.writeUInt16LE(2, 32)
    const record = pcapRecord({ timeMs: 1, payload: Buffer.from('payload') }, 9)
    return [Buffer.concat([pcapHeader(), record, record]), refused]
  },
  run(input) {
    const found = readPcap(input) ?? []
    const bytes = found.reduce((sum, { payload }) => sum + payload.length, 0)
    ok(bytes <= input.length, 'payloads are in the file')
    refuserOf(input)
  },
}
