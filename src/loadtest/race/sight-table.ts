// Pairs what several endpoints showed: when each of them showed each item first.
// An item that only one endpoint showed stays in the table: it is missing at the others.
//
//   row of a key: slot | stamp of endpoint 0 | stamp of endpoint 1 | …     NaN: not shown

/** Distinct items of a race, about 150 bytes each; later ones are only counted. */
export const rowsMax = 1_000_000
const rowsFirst = 4_096

export class SightTable {
  readonly endpoints: number
  readonly #rowsMax: number
  readonly #rowOf = new Map<string, number>()
  #slots = new Float64Array(rowsFirst)
  #stamps: Float64Array
  /** Times that an endpoint showed an item again. */
  readonly repeats: Float64Array
  /** Sights of new items after the table was full. */
  overflow = 0

  constructor(endpoints: number, limit = rowsMax) {
    this.endpoints = endpoints
    this.#rowsMax = limit
    this.#stamps = new Float64Array(rowsFirst * endpoints)
    this.repeats = new Float64Array(endpoints)
  }

  get rows(): number {
    return this.#rowOf.size
  }

  /** Notes that an endpoint showed the item; its earliest stamp stays. */
  add(endpoint: number, key: string, slot: number, atMs: number): void {
    const row = this.#rowOf.get(key) ?? this.#newRow(key, slot)
    if (row === null) {
      this.overflow += 1
      return
    }
    const at = row * this.endpoints + endpoint
    const known = this.#stamps[at]!
    if (!Number.isNaN(known)) this.repeats[endpoint]! += 1
    if (!(known <= atMs)) this.#stamps[at] = atMs
  }

  slotOf(row: number): number {
    return this.#slots[row]!
  }

  /** NaN when the endpoint did not show the item. */
  stampOf(row: number, endpoint: number): number {
    return this.#stamps[row * this.endpoints + endpoint]!
  }

  #newRow(key: string, slot: number): number | null {
    const row = this.#rowOf.size
    if (row === this.#rowsMax) return null
    if (row === this.#slots.length) this.#grow()
    this.#rowOf.set(key, row)
    this.#slots[row] = slot
    this.#stamps.fill(Number.NaN, row * this.endpoints, (row + 1) * this.endpoints)
    return row
  }

  #grow(): void {
    this.#slots = doubled(this.#slots)
    this.#stamps = doubled(this.#stamps)
  }
}

function doubled(numbers: Float64Array): Float64Array<ArrayBuffer> {
  const more = new Float64Array(numbers.length * 2)
  more.set(numbers)
  return more
}
