// Counts the rows of a streamed result from its bytes. Thread: main (pure, with state).
import type { OutputFormat } from '../engine.ts'

export interface RowCounter {
  see(bytes: Uint8Array): void
  rows(): number
}

const newline = 0x0a
const quote = 0x22

export function rowCounter(format: OutputFormat): RowCounter {
  switch (format) {
    case 'JSON':
    case 'JSONCompact':
      return new WrittenCount()
    case 'CSV':
      return new QuotedLines(0)
    case 'CSVWithNames':
      return new QuotedLines(1)
    case 'TabSeparatedWithNames':
      return new Lines(1)
    case 'Parquet':
      return { see() {}, rows: () => 0 }
    default:
      return new Lines(0)
  }
}

/** Line breaks inside values are escaped, so each one ends a row. */
class Lines implements RowCounter {
  #lines: number

  constructor(heads: number) {
    this.#lines = -heads
  }

  see(bytes: Uint8Array): void {
    for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1))
      this.#lines++
  }

  rows(): number {
    return Math.max(0, this.#lines)
  }
}

/** CSV: a line break between quotes is part of a value. */
class QuotedLines implements RowCounter {
  #lines: number
  #isQuoted = false

  constructor(heads: number) {
    this.#lines = -heads
  }

  see(bytes: Uint8Array): void {
    for (const byte of bytes)
      if (byte === quote) this.#isQuoted = !this.#isQuoted
      else if (byte === newline && !this.#isQuoted) this.#lines++
  }

  rows(): number {
    return Math.max(0, this.#lines)
  }
}

/** `"rows": n` follows the data; a value that contains it distorts only the caller's own count. */
class WrittenCount implements RowCounter {
  #end = ''

  see(bytes: Uint8Array): void {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    this.#end = (this.#end + text.subarray(-endChars).toString('latin1')).slice(-endChars)
  }

  rows(): number {
    const found = [...this.#end.matchAll(/\n\t"rows": (\d+)/g)].at(-1)
    return Number(found?.[1] ?? 0)
  }
}
const endChars = 4_096
