// A block in getBlock's own words, and the rows of the index that these words make.
import { asRead } from './index-reader.ts'

export interface ShownBlock {
  readonly parentSlot: number
  readonly blockhash: string
  readonly blockHeight: number
  readonly blockTime: number
  readonly transactions: readonly ShownTransaction[]
}

interface ShownInstruction {
  readonly programIdIndex: number
  readonly accounts: readonly number[]
  readonly data: string
}

interface ShownTransaction {
  readonly version: 'legacy' | number
  readonly transaction: {
    readonly signatures: readonly string[]
    readonly message: {
      readonly accountKeys: readonly string[]
      readonly instructions: readonly ShownInstruction[]
    }
  }
  readonly meta: {
    readonly err: unknown
    readonly fee: number
    readonly computeUnitsConsumed: number
    readonly innerInstructions: readonly {
      readonly index: number
      readonly instructions: readonly ShownInstruction[]
    }[]
  }
}

/** The rows that getBlock's own words make. */
export function shownAs(
  { version, transaction, meta }: ShownTransaction,
  { slot, idx, block }: { slot: number; idx: number; block: ShownBlock },
) {
  const keys = transaction.message.accountKeys
  const signature = transaction.signatures[0]!
  const row = (one: ShownInstruction, ix: number, inner_ix: number) =>
    asRead({
      slot,
      idx,
      ix,
      inner_ix,
      signature,
      program: keys[one.programIdIndex],
      accounts: one.accounts.map((at) => keys[at]),
      data: one.data,
      block_time: block.blockTime,
    })
  return {
    transaction: asRead({
      slot,
      idx,
      signature,
      fee_payer: keys[0],
      success: meta.err === null ? 1 : 0,
      err: meta.err === null ? '' : JSON.stringify(meta.err),
      fee: meta.fee,
      compute_units: meta.computeUnitsConsumed,
      version: version === 'legacy' ? -1 : version,
      block_time: block.blockTime,
    }),
    instructions: [
      ...transaction.message.instructions.map((one, ix) => row(one, ix, -1)),
      ...meta.innerInstructions.flatMap(({ index, instructions }) =>
        instructions.map((one, place) => row(one, index, place)),
      ),
    ],
  }
}

/** The block of an answer. */
export function blockOf(answer: { readonly kind: string }): ShownBlock {
  if ('text' in answer) return JSON.parse(answer.text as string)
  if ('pieces' in answer) return JSON.parse(Buffer.concat(answer.pieces as Buffer[]).toString())
  if ('value' in answer) return answer.value as ShownBlock
  throw new Error(JSON.stringify(answer))
}
