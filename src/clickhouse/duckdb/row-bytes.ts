// Copies strings out of DuckDB's vectors as bytes. Thread: main of a query process.
//
//   vector: one 16-byte entry per row    length u32 | up to 12 bytes inline
//                                        length u32 | prefix[4] | pointer u64   when longer
//
// Rendered rows lie one after the other in DuckDB's memory, so that one copy takes many of them.
// The memory belongs to the chunk: everything is copied before the chunk can be freed.
import type { DuckDBDataChunk } from '@duckdb/node-api'
import duckdb from '@duckdb/node-bindings'

const entryBytes = 16
const inlineBytesMax = 12

export interface TextRows {
  /** All strings of the first column, without separators. */
  readonly bytes: Buffer
  /** End of each string in `bytes`. */
  readonly ends: Uint32Array
}

export function textRows(chunk: DuckDBDataChunk): TextRows {
  const count = chunk.rowCount
  const data = duckdb.vector_get_data(
    duckdb.data_chunk_get_vector(chunk.chunk, 0),
    count * entryBytes,
  )
  return copyStrings(data, count)
}

/** Copies the strings of a vector's entries. */
export function copyStrings(data: Uint8Array, count: number): TextRows {
  const words = new Uint32Array(data.buffer, data.byteOffset, count * 4)
  const ends = new Uint32Array(count)
  let total = 0
  for (let row = 0; row < count; row += 1) {
    const length = words[row * 4]!
    total += length
    ends[row] = total
  }
  const bytes = Buffer.allocUnsafe(total)
  let first = -1
  let size = 0
  let next = 0
  let at = 0
  const copyRun = () => {
    if (size === 0) return
    const offset = data.byteOffset + first * entryBytes + 8
    bytes.set(duckdb.get_data_from_pointer(data.buffer as ArrayBuffer, offset, size), at)
    at += size
    size = 0
  }
  for (let row = 0; row < count; row += 1) {
    const length = words[row * 4]!
    if (length <= inlineBytesMax) {
      copyRun()
      const start = row * entryBytes + 4
      bytes.set(data.subarray(start, start + length), at)
      at += length
      continue
    }
    // Addresses are below 2^53.
    const address = words[row * 4 + 2]! + words[row * 4 + 3]! * 2 ** 32
    if (size === 0 || address !== next) {
      copyRun()
      first = row
    }
    size += length
    next = address + length
  }
  copyRun()
  return { bytes, ends }
}

const slash = 0x2f
const backslash = 0x5c

/** As `jsonCell`, of whole rows as bytes; nothing but values and names has such characters. */
export function jsonRows(json: Buffer, escapesSlashes: boolean): Buffer {
  const rows = json.includes(separatorStart) ? withSeparatorsEscaped(json) : json
  return escapesSlashes ? withSlashesEscaped(rows) : rows
}

/** The bytes that U+2028 and U+2029 begin with; quotation marks and dashes do as well. */
const separatorStart = Buffer.from([0xe2, 0x80])

function withSeparatorsEscaped(json: Buffer): Buffer {
  const escaped = json
    .toString('latin1')
    .replaceAll('\xe2\x80\xa8', '\\u2028')
    .replaceAll('\xe2\x80\xa9', '\\u2029')
  return Buffer.from(escaped, 'latin1')
}

function withSlashesEscaped(json: Buffer): Buffer {
  let at = json.indexOf(slash)
  if (at === -1) return json
  const escaped = Buffer.allocUnsafe(json.length * 2)
  let begin = 0
  let length = 0
  for (; at !== -1; at = json.indexOf(slash, at + 1)) {
    length += json.copy(escaped, length, begin, at)
    escaped[length] = backslash
    length += 1
    begin = at
  }
  length += json.copy(escaped, length, begin)
  return escaped.subarray(0, length)
}
