// What the fuzzer runs: a parser of bytes from outside, and what must hold whatever they are.
import { strictEqual } from 'node:assert'
import { crc32 } from 'node:zlib'

export interface Target {
  /** Inputs to begin with, beside the corpus. */
  seeds(): readonly Uint8Array[]
  /** Texts that a random change would not find. */
  readonly words?: readonly (string | Uint8Array)[]
  /** Longest input; 4 KiB unless told. */
  readonly bytesMax?: number
  /** A change that keeps the form of the input; about half of the changes then are this one. */
  change?(input: Buffer, chance: Chance): Uint8Array
  /** Throws when the property does not hold. The bytes are its own. */
  run(input: Buffer): void | Promise<void>
  /** A comparison that takes long: with every input that is kept, and some of the others. */
  compare?(input: Buffer): void | Promise<void>
  /** Closes what it has opened. */
  stop?(): Promise<void>
}

/** Numbers by a seed (mulberry32): the same run for the same seed. */
export class Chance {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
  }

  below(n: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * n)
  }

  one<T>(all: readonly T[]): T {
    return all[this.below(all.length)]!
  }
}

export function text(value: string): Buffer {
  return Buffer.from(value, 'utf8')
}

/** Fails with both sides as JSON, which shows where they differ. */
export function same(ours: unknown, theirs: unknown, what: string): void {
  strictEqual(shown(ours), shown(theirs), what)
}

function shown(value: unknown): string {
  return JSON.stringify(plain(value)) ?? 'undefined'
}

/** Bytes as hex and maps as lists, whatever their `toJSON` makes of them. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  if (value instanceof Map) return [...value].map(plain)
  if (Array.isArray(value)) return value.map(plain)
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]))
}

/** The input in pieces as a socket might bring it, by a number that the input gives itself. */
export function pieces(input: Buffer, most = 6): Buffer[] {
  const chance = new Chance(crc32(input))
  const found: Buffer[] = input.length === 0 ? [input] : []
  for (let at = 0; at < input.length; ) {
    const left = input.length - at
    const length = found.length === most ? left : 1 + chance.below(Math.min(left, 64))
    found.push(Buffer.from(input.subarray(at, at + length)))
    at += length
  }
  return found
}
