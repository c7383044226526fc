// Reads a streamed answer of a ClickHouse server: passes on its rows, buffers the end until it is
// clear that it is not an exception, and counts rows and bytes.
import type { Readable } from 'node:stream'
import type { QueryError } from '../clickhouse/exceptions.ts'
import { type Format, isTextFormat } from '../clickhouse/formats/formats.ts'
import { trailingException } from '../clickhouse/server/server-exception.ts'

/** Longer than the text of an exception, including the query that it may quote. */
const keptBytes = 16 * 1024

export class ResultReader {
  readonly #body: AsyncIterator<Buffer>
  readonly #format: Format | null
  readonly #tag: string | null
  readonly #counter: RowCounter
  #kept: Buffer[] = []
  #keptBytes = 0
  #isDone = false
  /** The exception at the end of the answer, if any. */
  error: QueryError | null = null
  bytes = 0

  constructor(body: Readable, format: Format | null, tag: string | null) {
    this.#body = (body as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
    this.#format = format
    this.#tag = tag
    this.#counter = rowCounter(format)
  }

  get rows(): number {
    return this.#counter.rows()
  }

  /** The next bytes that belong to the result; null at its end. Rejects when the server is gone. */
  async next(): Promise<Buffer | null> {
    while (!this.#isDone) {
      const { value, done } = await this.#body.next()
      if (done === true) return this.#end()
      this.#kept.push(value)
      this.#keptBytes += value.length
      if (this.#keptBytes > keptBytes) return this.#giveAllBut(keptBytes)
    }
    return null
  }

  /** The connection broke; the received end may still be an exception. */
  breakOff(): QueryError | null {
    this.#end()
    return this.error
  }

  #end(): Buffer | null {
    this.#isDone = true
    const end = Buffer.concat(this.#kept)
    this.#kept = []
    const found = trailingException(end, kindOf(this.#format), this.#tag)
    if (found === null) return end.length === 0 ? null : this.#give(end)
    this.error = found.exception
    return found.at === 0 ? null : this.#give(end.subarray(0, found.at))
  }

  #giveAllBut(rest: number): Buffer {
    const all = Buffer.concat(this.#kept)
    const cut = all.length - rest
    this.#kept = [all.subarray(cut)]
    this.#keptBytes = rest
    return this.#give(all.subarray(0, cut))
  }

  #give(bytes: Buffer): Buffer {
    this.bytes += bytes.length
    this.#counter.see(bytes)
    return bytes
  }
}

function kindOf(format: Format | null): 'json' | 'text' | 'binary' {
  if (format === null || !isTextFormat(format)) return 'binary'
  return format.name.startsWith('JSON') ? 'json' : 'text'
}

interface RowCounter {
  see(bytes: Uint8Array): void
  rows(): number
}

/** Counts the rows of a streamed result from its bytes, for formats in which they can be seen. */
function rowCounter(format: Format | null): RowCounter {
  const name = format?.name ?? ''
  if (/^JSON(Compact)?(Strings)?$|^JSONColumnsWithMetadata$/.test(name)) return writtenCount()
  if (/^(CSV|TabSeparated)|^JSON.*EachRow(With|$)/.test(name) && !/Object|Progress/.test(name))
    return countLines(name.startsWith('CSV'), format?.heads ?? 0)
  return { see() {}, rows: () => 0 }
}

/** Each line break ends a row, except between the quotes of CSV; others escape it in values. */
function countLines(hasQuotes: boolean, heads: number): RowCounter {
  let lines = -heads
  let isQuoted = false
  return {
    see(bytes) {
      if (!hasQuotes)
        for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) lines++
      else
        for (const byte of bytes)
          if (byte === quote) isQuoted = !isQuoted
          else if (byte === newline && !isQuoted) lines++
    },
    rows: () => Math.max(0, lines),
  }
}

const newline = 0x0a
const quote = 0x22
const endChars = 4_096

/** `"rows": n` follows the data; a value that contains it distorts only the caller's own count. */
function writtenCount(): RowCounter {
  let end = ''
  return {
    see(bytes) {
      const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
      end = (end + text.subarray(-endChars).toString('latin1')).slice(-endChars)
    },
    rows: () => Number([...end.matchAll(/\n\t"rows": (\d+)/g)].at(-1)?.[1] ?? 0),
  }
}
