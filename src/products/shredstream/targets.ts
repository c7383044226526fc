// Shares the addresses that the shred worker sends to, in shared memory. Thread: main writes, the
// shred worker reads between two batches. Survives a restart of the worker.
//
//   word 0: version, odd while it is written
//   word 1: 1 when there is a deadline; words 2 and 3: the deadline, in ns of CLOCK_MONOTONIC,
//           after which nothing may be sent: the leases of the destinations end
//   row (64 bytes) from byte 64: kind | generation | family | port | address 4 words |
//                                challenges due | nonce 4 words | - | - | -
import { randomBytes } from 'node:crypto'
import type { IpAddress } from '../../base/cidr.ts'
import { assert } from '../../base/errors.ts'

/** One served and one challenged address for each of 512 destinations; or 1024 served ones. */
export const rowsMax = 1024
const rowWords = 16
/** Word 0 of a row is the kind's index here plus one; 0 is a free row. */
const kinds = ['serve', 'challenge', 'probe'] as const

export interface Target {
  readonly row: number
  /** `probe`: paused, and sent one shred a second. */
  readonly kind: (typeof kinds)[number]
  /** Grows with each new use of the row, so that late events of an old use can be recognized. */
  readonly generation: number
  readonly address: Pick<IpAddress, 'family' | 'words'>
  readonly port: number
  /** How many challenges were requested so far. */
  readonly challenges: number
  /** 16 random bytes as four words. */
  readonly nonce: readonly [number, number, number, number]
}

/** An address in use, and its row in the shared tables. */
export interface TargetAddress {
  readonly text: string
  readonly address: IpAddress
  readonly port: number
  readonly row: number
  readonly generation: number
}

/** A day; an infinite time has no number of nanoseconds. */
const leftMsMax = 86_400_000

const challengePrefix = 'SLUICE1 '

/** The challenge that an unproven address receives and must echo: 40 ASCII bytes. */
export function challengeOf({ nonce }: Pick<Target, 'nonce'>): Buffer {
  const hex = nonce.map((word) => word.toString(16).padStart(8, '0')).join('')
  return Buffer.from(challengePrefix + hex, 'latin1')
}

export function targetOf(kind: Target['kind'], target: TargetAddress): Target {
  const { row, generation, address, port } = target
  return { kind, row, generation, address, port, challenges: 0, nonce: [0, 0, 0, 0] }
}

export function newNonce(): Target['nonce'] {
  const bytes = randomBytes(16)
  const word = (index: number) => bytes.readUInt32BE(index * 4)
  return [word(0), word(1), word(2), word(3)]
}

export class TargetTable {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array
  readonly #deadline: BigInt64Array

  constructor(buffer = new SharedArrayBuffer((rowsMax + 1) * rowWords * 4)) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer)
    this.#deadline = new BigInt64Array(buffer, 8, 1)
  }

  /** Nothing may be sent later than in `leftMs`. Only the main thread calls it. */
  setDeadline(leftMs: number): void {
    const leftNs = BigInt(Math.floor(Math.max(0, Math.min(leftMs, leftMsMax)) * 1e6))
    Atomics.store(this.#deadline, 0, process.hrtime.bigint() + leftNs)
    // Release: a reader that sees the flag sees a deadline.
    Atomics.store(this.#words, 1, 1)
  }

  /** True when the leases of all destinations have ended; the clock is read only with leases. */
  get isOver(): boolean {
    if (this.#words[1] === 0) return false
    return process.hrtime.bigint() > Atomics.load(this.#deadline, 0)
  }

  get version(): number {
    // Acquire: a reader that sees a new version sees the rows that were written before it.
    return Atomics.load(this.#words, 0)
  }

  /** Replaces all rows. Only the main thread calls it. */
  write(targets: Iterable<Target>): void {
    const version = this.#words[0]!
    // Exchange is a full barrier: no row is written before the version is odd.
    Atomics.exchange(this.#words, 0, version | 1)
    this.#words.fill(0, rowWords)
    for (const target of targets) {
      assert(target.row < rowsMax, 'a target has a row')
      const at = (target.row + 1) * rowWords
      this.#words[at] = kinds.indexOf(target.kind) + 1
      this.#words[at + 1] = target.generation
      this.#words[at + 2] = target.address.family
      this.#words[at + 3] = target.port
      this.#words.set(target.address.words, at + 4)
      this.#words[at + 8] = target.challenges
      this.#words.set(target.nonce, at + 9)
    }
    // Release: publishes the rows.
    Atomics.store(this.#words, 0, ((version | 1) + 1) | 0)
  }

  /** A consistent snapshot of all rows, or null while they are being written. */
  read(): Target[] | null {
    const version = this.version
    if ((version & 1) === 1) return null
    const words = new Uint32Array(this.#words)
    if (this.version !== version) return null
    const targets: Target[] = []
    for (let row = 0; row < rowsMax; row += 1) {
      const at = (row + 1) * rowWords
      if (words[at] === 0) continue
      targets.push({
        row,
        kind: kinds[words[at]! - 1]!,
        generation: words[at + 1]!,
        address: { family: words[at + 2] === 4 ? 4 : 6, words: fourWords(words, at + 4) },
        port: words[at + 3]!,
        challenges: words[at + 8]!,
        nonce: fourWords(words, at + 9),
      })
    }
    return targets
  }
}

function fourWords(words: Uint32Array, at: number): [number, number, number, number] {
  return [words[at]!, words[at + 1]!, words[at + 2]!, words[at + 3]!]
}
