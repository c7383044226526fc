// Shows instructions of the published clients as `jsonParsed` does, and builds those that no client
// has a builder for.
import {
  PublicKey,
  STAKE_CONFIG_ID,
  SYSVAR_CLOCK_PUBKEY,
  SYSVAR_RECENT_BLOCKHASHES_PUBKEY,
  SYSVAR_RENT_PUBKEY,
  SYSVAR_STAKE_HISTORY_PUBKEY,
  SystemProgram,
  TransactionInstruction,
} from '@solana/web3.js'
import { expect, it } from 'vitest'
import { jsonText } from '../../src/base/json-text.ts'
import { parsedInstruction } from '../../src/chain/solana/json-parsed/instructions.ts'
import { oldestShapes, type Shapes } from '../../src/chain/solana/version.ts'

const keysMax = 12
const keys = Array.from({ length: keysMax }, (_, n) => new PublicKey(Buffer.alloc(32, n + 1)))

const known: readonly (readonly [name: string, address: string])[] = [
  ...keys.map((one, n) => [`k${n + 1}`, one.toBase58()] as const),
  ['systemProgram', SystemProgram.programId.toBase58()],
  ['tokenProgram', 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'],
  ['rent', SYSVAR_RENT_PUBKEY.toBase58()],
  ['clock', SYSVAR_CLOCK_PUBKEY.toBase58()],
  ['stakeHistory', SYSVAR_STAKE_HISTORY_PUBKEY.toBase58()],
  ['stakeConfig', STAKE_CONFIG_ID.toBase58()],
  ['recentBlockhashes', SYSVAR_RECENT_BLOCKHASHES_PUBKEY.toBase58()],
]

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

/** As agave 4.0 unless other shapes are given. */
export function shownText(
  { programId, keys: metas, data }: TransactionInstruction,
  shapes: Shapes = oldestShapes,
): string {
  const all = [programId, ...metas.map(({ pubkey }) => pubkey)]
  const accounts = Uint8Array.from(metas, (_, index) => index + 1)
  const instruction = { programIdIndex: 0, accounts, data }
  const text = jsonText(
    parsedInstruction(
      instruction,
      all.map((one) => one.toBytes()),
      1,
      shapes,
    ),
  )
  return named(text)
}

/** With the names of known addresses in their place. */
function named(text: string): string {
  return known.reduce(
    (shown, [name, address]) => shown.replaceAll(`"${address}"`, `"${name}"`),
    text,
  )
}

/** An instruction, and the JSON of its `info` without most quotes, see `quoted`. */
export type ShownRow = readonly [
  TransactionInstruction,
  type: string,
  /** Null when the result has no `info`. */
  info: string | null,
  bounds?: {
    /** Fewer accounts are refused; all of the instruction's are needed when it is not set. */
    readonly accounts?: number
    /** True when no byte may follow. */
    readonly isExact?: boolean
  },
]

/** A test for each instruction: its JSON to the letter, its bounds on accounts and data. */
export function itShows(program: string, rows: readonly ShownRow[]): void {
  it.each(rows.map(([instruction, type, info, bounds]) => ({ instruction, type, info, bounds })))(
    `shows $type of ${program}`,
    ({ instruction, type, info, bounds }) => {
      const { programId, keys: metas, data } = instruction
      const { accounts = metas.length, isExact = false } = bounds ?? {}
      const parsed = `{${info === null ? '' : `"info":${quoted(info)},`}"type":"${type}"}`
      const ids = `"program":"${program}","programId":"${programId}"`
      expect(shownText(instruction)).toBe(named(`{"parsed":${parsed},${ids},"stackHeight":1}`))
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

/** JSON from a text without spaces, where words need no quotes: `{mint:k1,amount:"9"}`. */
function quoted(text: string): string {
  const isBare = (word: string) => !/^("|(null|true|false)$)/.test(word)
  return text
    .replace(/\s+/g, '')
    .replace(/"[^"]*"|[a-z_]\w*/gi, (word) => (isBare(word) ? `"${word}"` : word))
}
