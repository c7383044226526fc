// Selects transactions by the instructions that they run: a program, and how the data begins.
// A discriminator is such a beginning: one byte, or the eight of Anchor.
// A transaction is decoded for it at most once, and only one that names a program of some filter.
import { keyOf } from './base58.ts'
import type { InstructionContent, TransactionContent } from './geyser-decode.ts'

/** Of one list, and bytes of one prefix. */
export const instructionsMax = 64
export const dataPrefixBytesMax = 128

/** Program and data as `keyOf` returns them. */
export interface InstructionFilter {
  readonly program: string
  /** Empty for any data. */
  readonly dataPrefix: string
}

/** Programs of which a transaction must name one. */
export function programsOf(filters: readonly InstructionFilter[]): ReadonlySet<string> {
  return new Set(filters.map(({ program }) => program))
}

/** Whether some instruction, top-level or inner, matches one of the filters. */
export function runsAny(
  filters: readonly InstructionFilter[],
  keys: readonly Uint8Array[],
  { message, meta }: Pick<TransactionContent, 'message' | 'meta'>,
): boolean {
  const matches = ({ programIdIndex, data }: InstructionContent) => {
    const key = keys[programIdIndex]
    if (key === undefined) return false
    const program = keyOf(key)
    return filters.some((filter) => {
      const { length } = filter.dataPrefix
      if (filter.program !== program || data.length < length) return false
      return keyOf(data.subarray(0, length)) === filter.dataPrefix
    })
  }
  if (message.instructions.some(matches)) return true
  return meta.innerInstructions?.some(({ instructions }) => instructions.some(matches)) === true
}
