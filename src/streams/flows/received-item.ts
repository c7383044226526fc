// What accounts, transactions and entries of a batch have in common: the columns of their row, and
// views of their bytes, made on access.
import { batchColumn, batchColumns, type GeyserBatch } from '../../chain/solana/geyser-batch.ts'

/** A batch that makes its updates again. */
export interface BatchSource extends GeyserBatch {
  update(position: number): unknown
}

export class ReceivedItem {
  readonly source: BatchSource
  readonly position: number
  #body: Uint8Array | null = null

  constructor(source: BatchSource, position: number) {
    this.source = source
    this.position = position
  }

  get slot(): number {
    return this.column(batchColumn.slot)
  }

  get createdAtMs(): number {
    return this.column(batchColumn.createdAtMs)
  }

  get bodyBytes(): number {
    return this.column(batchColumn.bodyEnd) - this.column(batchColumn.bodyStart)
  }

  get body(): Uint8Array {
    this.#body ??= this.#view(batchColumn.bodyStart, batchColumn.bodyEnd)
    return this.#body
  }

  get info(): Uint8Array {
    return this.#view(batchColumn.infoStart, batchColumn.infoEnd)
  }

  protected column(column: number): number {
    return this.source.table[this.position * batchColumns + column]!
  }

  #view(start: number, end: number): Uint8Array {
    return this.source.bytes.subarray(this.column(start), this.column(end))
  }
}
