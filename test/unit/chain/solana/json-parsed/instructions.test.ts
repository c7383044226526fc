import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonText } from '../../../../../src/base/json-text.ts'
import { encodeBase58 } from '../../../../../src/chain/solana/base58.ts'
import { parsedInstruction } from '../../../../../src/chain/solana/json-parsed/instructions.ts'
import { programs } from '../../../../../src/chain/solana/programs.ts'
import { newestShapes } from '../../../../../src/chain/solana/version.ts'

const keys = Array.from({ length: 12 }, (_, n) => new Uint8Array(32).fill(n + 1))
const names = keys.map((key) => encodeBase58(key))

/** The instruction as JSON; the accounts are indexes of the keys. */
function shown(program: Uint8Array, accounts: readonly number[], data: Uint8Array) {
  const instruction = {
    programIdIndex: keys.length,
    accounts: Uint8Array.from(accounts),
    data,
  }
  return JSON.parse(jsonText(parsedInstruction(instruction, [...keys, program], 2, newestShapes)))
}

const raw = (program: Uint8Array, accounts: readonly string[], data: Uint8Array) => ({
  accounts,
  data: encodeBase58(data),
  programId: encodeBase58(program),
  stackHeight: 2,
})

describe('jsonParsed instructions', () => {
  it('shows memos that are text, with or without accounts', () => {
    for (const program of [programs.memo, programs.memoV1])
      for (const accounts of [[], [0]])
        expect(shown(program, accounts, Buffer.from('grün'))).toEqual({
          parsed: 'grün',
          program: 'spl-memo',
          programId: encodeBase58(program),
          stackHeight: 2,
        })
    const noText = Uint8Array.of(0xc3, 0x28)
    expect(shown(programs.memo, [], noText)).toEqual(raw(programs.memo, [], noText))
  })

  it('shows instructions of other programs with accounts and data', () => {
    for (const program of [programs.computeBudget, programs.loaderV1, programs.config]) {
      const data = Uint8Array.of(2, 0, 0, 0)
      expect(shown(program, [3, 3, 0], data)).toEqual(
        raw(program, [names[3]!, names[3]!, names[0]!], data),
      )
    }
  })

  it('refuses an account that the message does not have', () => {
    const transfer = Uint8Array.of(2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
    expect(shown(programs.system, [0, 1], transfer)).toHaveProperty('parsed')
    expect(shown(programs.system, [0, 99], transfer)).toEqual(
      raw(programs.system, [names[0]!, ''], transfer),
    )
    const instruction = { programIdIndex: 99, accounts: Uint8Array.of(0), data: transfer }
    expect(parsedInstruction(instruction, keys, null, newestShapes)).toMatchObject({
      programId: '',
    })
  })

  it('never throws on malformed data or short lists of accounts', () => {
    const parsed = new Map<string, number>()
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(programs)),
        fc.array(fc.nat({ max: keys.length }), { maxLength: 14 }),
        fc.oneof(...tags),
        fc.oneof(fc.uint8Array({ maxLength: 200 }), smallBytes),
        (program, accounts, tag, rest) => {
          const data = Uint8Array.of(...tag, ...rest)
          const result = shown(program, accounts, data)
          const listed = accounts.map((index) => names[index] ?? encodeBase58(program))
          if (result.parsed === undefined) expect(result).toEqual(raw(program, listed, data))
          else parsed.set(result.program, (parsed.get(result.program) ?? 0) + 1)
        },
      ),
      { numRuns: 8_000 },
    )
    // Not all was refused at once.
    for (const name of ['system', 'stake', 'vote', 'spl-token', 'bpf-upgradeable-loader'])
      expect(parsed.get(name), name).toBeGreaterThan(0)
  })
})

/** Tags of instructions: native, of tokens, of extensions, of token metadata and groups. */
const tags: readonly fc.Arbitrary<readonly number[]>[] = [
  fc.nat({ max: 20 }).map((tag) => [tag, 0, 0, 0]),
  fc.nat({ max: 46 }).map((tag) => [tag]),
  fc.tuple(fc.integer({ min: 26, max: 44 }), fc.nat({ max: 15 })),
  fc.constantFrom(
    [0xd2, 0xe1, 0x1e, 0xa2, 0x58, 0xb8, 0x4d, 0x8d],
    [0xdd, 0xe9, 0x31, 0x2d, 0xb5, 0xca, 0xdc, 0xc8],
    [0xfa, 0xa6, 0xb4, 0xfa, 0x0d, 0x0c, 0xb8, 0x46],
    [0x79, 0x71, 0x6c, 0x27, 0x36, 0x33, 0x00, 0x04],
  ),
]
/** Counts and lengths that the data may hold. */
const smallBytes = fc
  .array(fc.nat({ max: 3 }), { maxLength: 200 })
  .map((list) => Uint8Array.from(list))
