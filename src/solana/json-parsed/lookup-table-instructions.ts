// Parses instructions of the address lookup table program for `jsonParsed`. Thread: any (pure).
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import type { Parsed } from './parsed.ts'

export function parsedLookupTableInstruction(
  accounts: readonly string[],
  data: Uint8Array,
): Parsed | null {
  const cursor = new Cursor(data)
  const tag = cursor.u32()
  if (cursor.isShort || accounts.length < 2) return null
  const [lookupTableAccount, lookupTableAuthority, third, fourth] = accounts
  const table = { lookupTableAccount, lookupTableAuthority }
  switch (tag) {
    case 0: {
      if (fourth === undefined) return null
      const recentSlot = cursor.u64()
      const bumpSeed = cursor.u8()
      if (cursor.isShort) return null
      const info = { bumpSeed, ...table, payerAccount: third, recentSlot, systemProgram: fourth }
      return { info, type: 'createLookupTable' }
    }
    case 1:
      return { info: table, type: 'freezeLookupTable' }
    case 2: {
      const count = cursor.u64()
      if (count * 32n > BigInt(cursor.left)) return null
      const newAddresses = Array.from({ length: Number(count) }, () => keyText(cursor.key()))
      const info = { ...table, newAddresses, payerAccount: third, systemProgram: fourth }
      return { info, type: 'extendLookupTable' }
    }
    case 3:
      return { info: table, type: 'deactivateLookupTable' }
    case 4:
      return third === undefined
        ? null
        : { info: { ...table, recipient: third }, type: 'closeLookupTable' }
    default:
      return null
  }
}
