// Shows instructions of the published clients as `jsonParsed` does, and builds those that no client
// has a builder for.
import { PublicKey, TransactionInstruction } from '@solana/web3.js'
import { expect, it } from 'vitest'
import { jsonText } from '../../src/base/json-text.ts'
import { parsedInstruction } from '../../src/solana/json-parsed/instructions.ts'

const keysMax = 12
const keys = Array.from({ length: keysMax }, (_, n) => new PublicKey(Buffer.alloc(32, n + 1)))

/** The n-th of a few keys, from 1 on; it is shown as `kn`. */
export function key(n: number): PublicKey {
  return keys[n - 1]!
}

/** An instruction whose accounts are the first so many keys. */
export function raw(program: PublicKey, accounts: number, ...data: Part[]): TransactionInstruction {
  const named = keys.slice(0, accounts)
  return new TransactionInstruction({
    programId: program,
    keys: named.map((pubkey) => ({ pubkey, isSigner: false, isWritable: true })),
    data: bytes(...data),
  })
}

/** Numbers are bytes; bigints 8 of them, low first; a text follows its length as u64. */
export type Part = number | bigint | string | PublicKey | Uint8Array

export function bytes(...parts: Part[]): Buffer {
  return Buffer.concat(parts.map(partBytes))
}

function partBytes(part: Part): Uint8Array {
  if (typeof part === 'number') return Uint8Array.of(part)
  if (typeof part === 'string') return bytes(BigInt(Buffer.byteLength(part)), Buffer.from(part))
  if (part instanceof PublicKey) return part.toBytes()
  if (typeof part !== 'bigint') return part
  const u64 = Buffer.alloc(8)
  u64.writeBigInt64LE(BigInt.asIntN(64, part))
  return u64
}

export function u32(value: number): Buffer {
  const u32 = Buffer.alloc(4)
  u32.writeUInt32LE(value)
  return u32
}

export function shownText({ programId, keys: metas, data }: TransactionInstruction): string {
  const all = [programId, ...metas.map(({ pubkey }) => pubkey)]
  const accounts = Uint8Array.from(metas, (_, index) => index + 1)
  const instruction = { programIdIndex: 0, accounts, data }
  const text = jsonText(
    parsedInstruction(
      instruction,
      all.map((one) => one.toBytes()),
      1,
    ),
  )
  return keys.reduce((shown, one, n) => shown.replaceAll(one.toBase58(), `k${n + 1}`), text)
}

export interface Expected {
  readonly type: string
  /** Without it the result has no `info`. */
  readonly info?: object
  /** Fewer accounts are refused; all of the instruction's are needed when it is not set. */
  readonly accounts?: number
  /** True when no byte may follow. */
  readonly isExact?: boolean
}

/** A test for each instruction: its JSON to the letter, its bounds on accounts and data. */
export function itShows(
  program: string,
  rows: readonly (readonly [TransactionInstruction, Expected])[],
): void {
  it.each(rows.map(([instruction, expected]) => ({ instruction, ...expected })))(
    `shows $type of ${program}`,
    ({ instruction, type, info, accounts = instruction.keys.length, isExact = false }) => {
      const { programId, keys: metas, data } = instruction
      const parsed = info === undefined ? { type } : { info: sorted(info), type }
      const shown = { parsed, program, programId: programId.toBase58(), stackHeight: 1 }
      expect(shownText(instruction)).toBe(jsonText(shown))
      const isParsed = (count: number, bytes: Buffer) =>
        shownText(
          new TransactionInstruction({ programId, keys: metas.slice(0, count), data: bytes }),
        ).startsWith('{"parsed"')
      expect(isParsed(accounts, data), 'enough accounts').toBe(true)
      expect(isParsed(accounts - 1, data), 'too few accounts').toBe(false)
      expect(isParsed(metas.length, Buffer.concat([data, Buffer.alloc(1)]))).toBe(!isExact)
    },
  )
}

/** As a validator sends it: members in alphabetical order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(members.map(([name, member]) => [name, sorted(member)]))
}
