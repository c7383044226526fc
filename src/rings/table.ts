// A table of fixed size in shared memory: state that outlives a worker or is seen by several.
// Thread: any. One thread writes (all rows, or each row its own thread); any thread reads.
//
//   +-------------------+------------------------------------------------------------+
//   | line 0            | changes u32: how often any row was written                 |
//   | line 1 ...        | row 0: version u32, unused u32, columns f64 ...  (padded)  |
//   |                   | row 1: ...                                                 |
//   +-------------------+------------------------------------------------------------+
//
// A row's version is odd while it is written. A reader that finds the same even version before
// and after has read a whole row; otherwise it reads again.
import { assert } from '../base/assert.ts'
import { cacheLineBytes } from './layout.ts'

export interface TableDescriptor<C extends string> {
  readonly buffer: SharedArrayBuffer
  readonly rows: number
  readonly columns: readonly C[]
}

const rowsMax = 1 << 20

export class SharedTable<C extends string> {
  readonly descriptor: TableDescriptor<C>
  readonly #words: Int32Array
  readonly #numbers: Float64Array
  readonly #rowBytes: number
  readonly #fence = new Int32Array(1)

  constructor(descriptor: TableDescriptor<C>) {
    this.descriptor = descriptor
    this.#words = new Int32Array(descriptor.buffer)
    this.#numbers = new Float64Array(descriptor.buffer)
    this.#rowBytes = rowBytesOf(descriptor.columns.length)
  }

  static allocate<const C extends string>(about: {
    readonly rows: number
    readonly columns: readonly C[]
  }): SharedTable<C> {
    const { rows, columns } = about
    assert(
      Number.isInteger(rows) && rows > 0 && rows <= rowsMax,
      `a table has 1 to ${rowsMax} rows`,
    )
    const bytes = cacheLineBytes + rows * rowBytesOf(columns.length)
    return new SharedTable({ buffer: new SharedArrayBuffer(bytes), rows, columns })
  }

  /** Grows with every write: a loop compares it instead of reading all rows. */
  get changes(): number {
    // Acquires: who sees the new number sees the row that was written before it.
    return Atomics.load(this.#words, 0)
  }

  /** Replaces the whole row. Only the row's one writer may call it. */
  write(row: number, values: Readonly<Record<C, number>>): void {
    const at = this.#rowAt(row)
    // An exchange, which is a barrier for what follows: no column is stored before the version is
    // odd, also on arm64.
    const version = this.#words[at / 4]!
    Atomics.exchange(this.#words, at / 4, version | 1)
    for (const [index, column] of this.descriptor.columns.entries())
      this.#numbers[at / 8 + 1 + index] = values[column]
    // Releases the columns: who sees the even version sees all of them.
    Atomics.store(this.#words, at / 4, ((version | 1) + 1) | 0)
    Atomics.add(this.#words, 0, 1)
  }

  /** The row as it was at one moment; null while it was never written. */
  read(row: number): Record<C, number> | null {
    const at = this.#rowAt(row)
    const { columns } = this.descriptor
    for (;;) {
      // Acquires: the columns below are not read before it.
      const version = Atomics.load(this.#words, at / 4)
      if (version === 0) return null
      if ((version & 1) === 1) continue
      const values = {} as Record<C, number>
      for (const [index, column] of columns.entries())
        values[column] = this.#numbers[at / 8 + 1 + index]!
      // A barrier: the columns above are not read after the second look.
      Atomics.exchange(this.#fence, 0, 0)
      if (Atomics.load(this.#words, at / 4) === version) return values
    }
  }

  #rowAt(row: number): number {
    assert(row >= 0 && row < this.descriptor.rows, 'a row lies in its table')
    return cacheLineBytes + row * this.#rowBytes
  }
}

function rowBytesOf(columns: number): number {
  return Math.ceil((8 + columns * 8) / cacheLineBytes) * cacheLineBytes
}
