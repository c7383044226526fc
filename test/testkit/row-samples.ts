// Rows for the tests and benches of the index: real shapes, made from numbers alone.
import type { Cell, RowBatch } from '../../src/indexer/engine.ts'

const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** A text like a key or a signature; the same for the same number. */
export function textOf(seed: number, length: number): string {
  let state = (seed * 2_654_435_761 + 12_345) >>> 0
  let text = ''
  for (let at = 0; at < length; at += 1) {
    state = (state * 1_664_525 + 1_013_904_223) >>> 0
    text += alphabet[state % 58]
  }
  return text
}

export interface RowShape {
  readonly slot: number
  readonly slots: number
  readonly perSlot: number
}

export function transactionRows({ slot, slots, perSlot }: RowShape): RowBatch {
  const rows: Cell[][] = []
  for (let at = slot; at < slot + slots; at += 1)
    for (let idx = 0; idx < perSlot; idx += 1)
      rows.push([
        BigInt(at),
        idx,
        textOf(at * 10_000 + idx, 88),
        textOf(idx % 97, 44),
        idx % 10 === 9 ? 0 : 1,
        idx % 10 === 9 ? 'InstructionError' : '',
        5000n + BigInt(idx % 7),
        BigInt(150 + (idx % 1000)),
        0,
        1_700_000_000 + at,
      ])
  return batch('transactions', rows)
}

export function instructionRows({ slot, slots, perSlot }: RowShape): RowBatch {
  const rows: Cell[][] = []
  for (let at = slot; at < slot + slots; at += 1)
    for (let idx = 0; idx < perSlot; idx += 1)
      rows.push([
        BigInt(at),
        idx,
        0,
        -1,
        textOf(at * 10_000 + idx, 88),
        textOf(idx % 13, 44),
        [textOf(idx % 97, 44), textOf(idx % 89, 44), textOf(idx % 83, 44)],
        textOf(idx, 24),
        1_700_000_000 + at,
      ])
  return batch('instructions', rows)
}

export function usageRows(subscription: string, from: number, count: number): RowBatch {
  return batch(
    'usage',
    Array.from({ length: count }, (_, row) => [
      subscription,
      1_700_000_000_000 + from + row,
      `${subscription}-${from + row}`,
      1.5,
      BigInt(row),
      100n,
      0,
    ]),
  )
}

export function batch(table: RowBatch['table'], rows: readonly (readonly Cell[])[]): RowBatch {
  const width = rows[0]?.length ?? 0
  const columns = Array.from({ length: width }, (_, column) => rows.map((row) => row[column]!))
  return { table, count: rows.length, columns }
}
