// What programs write into accounts and instructions, which anyone may choose, shown as JSON.
import { ok } from 'node:assert'
import { jsonText, sortedMembers } from '../../../src/base/json-text.ts'
import { parsedAccount } from '../../../src/chain/solana/json-parsed/accounts.ts'
import { parsedInstruction } from '../../../src/chain/solana/json-parsed/instructions.ts'
import { programs, sysvarOwner, sysvars } from '../../../src/chain/solana/programs.ts'
import { readExtensions, readTokenAccount } from '../../../src/chain/solana/token-account.ts'
import { errText } from '../../../src/chain/solana/ui-transaction.ts'
import { newestShapes, oldestShapes } from '../../../src/chain/solana/version.ts'
import type { Target } from '../target.ts'

const owners = [...Object.values(programs), sysvarOwner]
const names = Object.values(sysvars)
const shapes = [newestShapes, oldestShapes]
const mintBytes = 82
const tokenBytes = 165

/** Which owner, which sysvar, then the data. */
export const accountData: Target = {
  bytesMax: 8192,
  words: [Uint8Array.of(1, 0, 0, 0), Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0), new Uint8Array(32)],
  seeds: () =>
    owners.flatMap((_, owner) =>
      [mintBytes, tokenBytes, 400].map((length) => {
        const data = Buffer.alloc(2 + length)
        data[0] = owner
        data[2] = owner % 4
        return data
      }),
    ),
  run(input) {
    const owner = owners[(input[0] ?? 0) % owners.length]!
    const pubkey = names[(input[1] ?? 0) % names.length]!
    const data = input.subarray(2)
    const mint = { owner, data: data.subarray(0, mintBytes) }
    for (const one of shapes) {
      const parsed = parsedAccount({ pubkey, owner, data }, () => mint, one)
      if (parsed !== null) check(jsonText(sortedMembers(parsed)), data.length)
      parsedAccount({ pubkey, owner, data }, () => null, one)
    }
    readTokenAccount(owner, data)
    readExtensions(data)
    check(errText(data), data.length)
  },
}

const keyCount = 8
const keys = (program: Uint8Array) => [program, ...names.slice(0, keyCount)]

/** Which program, how many accounts, then the data. */
export const instructionData: Target = {
  bytesMax: 1_300,
  words: [Uint8Array.of(1, 0, 0, 0), new Uint8Array(32), Uint8Array.of(36), Uint8Array.of(255)],
  seeds: () =>
    owners.flatMap((_, owner) =>
      [0, 1, 7].map((tag) => Buffer.of(owner, 7, tag, 0, 0, 0, ...Array(60).fill(tag))),
    ),
  run(input) {
    const program = owners[(input[0] ?? 0) % owners.length]!
    const accounts = Uint8Array.from({ length: (input[1] ?? 0) % 20 }, (_, index) => index)
    const instruction = { programIdIndex: 0, accounts, data: input.subarray(2), stackHeight: 2 }
    for (const one of shapes) {
      const parsed = parsedInstruction(instruction, keys(program), 2, one)
      check(jsonText(parsed), input.length)
    }
  },
}

function check(text: string, bytes: number): void {
  ok(text.length < 64 * bytes + 16_384, 'a text is bounded by its data')
  JSON.parse(text)
}
