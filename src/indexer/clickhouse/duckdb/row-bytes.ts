// Reads the chunks of a result, and copies the strings of their vectors as bytes.
// Thread: main of a query process.
//
//   vector: one 16-byte entry per row    length u32 | up to 12 bytes inline
//                                        length u32 | prefix[4] | pointer u64   when longer
//
// Rendered rows lie one after the other in DuckDB's memory, so that one copy takes many of them.
// The memory belongs to the chunk: everything is copied before the chunk can be freed.
import type { DuckDBDataChunk, DuckDBMapType, DuckDBResult, DuckDBType } from '@duckdb/node-api'
import { SMALLINT, TINYINT, VARCHAR } from '@duckdb/node-api/lib/DuckDBType.js'
import { DuckDBTypeId } from '@duckdb/node-api/lib/DuckDBTypeId.js'
import duckdb, { type Vector } from '@duckdb/node-bindings'
import { type DuckColumn, elementOf, fieldsOf, kindOf, source, typeName } from './nested-text.ts'
import { enumNumber, isEnum } from './typing.ts'

const entryBytes = 16
const inlineBytesMax = 12

/** The engine works on the next chunk while the reader writes this one. */
export async function* chunksAhead(result: DuckDBResult): AsyncGenerator<DuckDBDataChunk> {
  const fetch = () => {
    const fetched = result.fetchChunk()
    // The reader sees the error when it gets there.
    fetched.catch(() => {})
    return fetched
  }
  let next = fetch()
  try {
    for (;;) {
      const chunk = await next
      if (chunk === null || chunk.rowCount === 0) return
      next = fetch()
      yield chunk
    }
  } finally {
    // A result is not ended while it is being read.
    await next.catch(() => {})
  }
}

/**
 * Whether a stream that has ended is incomplete: it ends in the same way, and the binding does not
 * pass its error on, but to DuckDB a result with an error is no stream.
 */
export function hasFailed(result: DuckDBResult): boolean {
  return !result.isStreaming
}

/** More are joined: rows that are short and long by turns are a piece each. */
const piecesMax = 64

/** The first strings of a chunk's first column, in their order and without separators. */
export function textPieces(chunk: DuckDBDataChunk, count: number): Buffer[] {
  const vector = duckdb.data_chunk_get_vector(chunk.chunk, 0)
  const pieces = piecesOf(duckdb.vector_get_data(vector, count * entryBytes), count)
  return pieces.length <= piecesMax ? pieces : [Buffer.concat(pieces)]
}

interface TextRows {
  /** All strings, without separators. */
  readonly bytes: Buffer
  /** End of each string in `bytes`. */
  readonly ends: Uint32Array
}

/** Copies the strings of a vector's entries. */
export function copyStrings(data: Uint8Array, count: number): TextRows {
  const words = new Uint32Array(data.buffer, data.byteOffset, count * 4)
  const ends = new Uint32Array(count)
  let total = 0
  for (let row = 0; row < count; row += 1) {
    total += words[row * 4]!
    ends[row] = total
  }
  return { bytes: Buffer.concat(piecesOf(data, count), total), ends }
}

/** A piece per run of strings that follow each other in memory, and per run of inline ones. */
function piecesOf(data: Uint8Array, count: number): Buffer[] {
  const words = new Uint32Array(data.buffer, data.byteOffset, count * 4)
  // Addresses are below 2^53.
  const addressOf = (row: number) => words[row * 4 + 2]! + words[row * 4 + 3]! * 2 ** 32
  const pieces: Buffer[] = []
  for (let row = 0; row < count; ) {
    const first = row
    let size = 0
    if (words[row * 4]! <= inlineBytesMax) {
      for (; row < count && words[row * 4]! <= inlineBytesMax; row += 1) size += words[row * 4]!
      pieces.push(inlineStrings(data, words, { first, end: row, size }))
      continue
    }
    for (let next = addressOf(row); row < count; row += 1) {
      const length = words[row * 4]!
      if (length <= inlineBytesMax || addressOf(row) !== next) break
      size += length
      next += length
    }
    const offset = data.byteOffset + first * entryBytes + 8
    const copy = duckdb.get_data_from_pointer(data.buffer as ArrayBuffer, offset, size)
    pieces.push(Buffer.from(copy.buffer, copy.byteOffset, copy.length))
  }
  return pieces
}

function inlineStrings(
  data: Uint8Array,
  words: Uint32Array,
  { first, end, size }: { readonly first: number; readonly end: number; readonly size: number },
): Buffer {
  const bytes = Buffer.allocUnsafe(size)
  let at = 0
  for (let row = first; row < end; row += 1) {
    const start = row * entryBytes + 4
    const stop = start + words[row * 4]!
    for (let from = start; from < stop; from += 1) {
      bytes[at] = data[from]!
      at += 1
    }
  }
  return bytes
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

// The types of a binary result, found in DuckDB's vectors: which columns have NULLs.

/** A chunk with the number of its rows that are part of the result. */
export type TakenChunk = readonly [chunk: DuckDBDataChunk, rows: number]

/** A type in the result: its ClickHouse name and parts, and whether one of its values is NULL. */
export interface Shape {
  readonly type: DuckDBType
  isNullable: boolean
  readonly parts: readonly Shape[]
}

/** The statement with the types that binary formats have; others become texts. */
export function binarySql(sql: string, columns: readonly DuckColumn[]): string {
  const cells = columns.map((column) => {
    const { type, value, shown = '' } = column
    if (isEnum(shown)) return enumNumber({ sql: value, type: shown }).sql
    return isBinary(type) ? value : `CAST(${value} AS VARCHAR)`
  })
  return `SELECT ${cells.join(', ')} FROM ${source(sql, columns)}`
}

/**
 * The types of the columns. One is Nullable when a row of the result is NULL: DuckDB does not know
 * it beforehand, so all chunks are scanned.
 */
export function shapesOf(
  columns: readonly DuckColumn[],
  chunks: readonly TakenChunk[],
): readonly Shape[] {
  const shapes = columns.map(({ type, shown = '' }) => {
    if (isEnum(shown)) return shapeOf(shown.includes('Enum16(') ? SMALLINT : TINYINT)
    return shapeOf(isBinary(type) ? type : VARCHAR)
  })
  for (const [chunk, rows] of chunks)
    for (const [at, shape] of shapes.entries())
      findNulls(shape, duckdb.data_chunk_get_vector(chunk.chunk, at), rows)
  return shapes
}

function isBinary(type: DuckDBType): boolean {
  const element = elementOf(type)
  if (element !== null) return type.typeId === DuckDBTypeId.LIST && isBinary(element)
  if (type.typeId === DuckDBTypeId.MAP) {
    const { keyType, valueType } = type as DuckDBMapType
    return isBinary(keyType) && isBinary(valueType)
  }
  if (type.typeId === DuckDBTypeId.STRUCT)
    return fieldsOf(type, '').every((one) => isBinary(one.type))
  return kindOf(type) !== 'text' || textTypes.has(type.typeId)
}

/** Types whose values are bytes with a length, or nothing. */
export const textTypes = new Set([DuckDBTypeId.VARCHAR, DuckDBTypeId.BLOB, DuckDBTypeId.SQLNULL])

function shapeOf(type: DuckDBType): Shape {
  const element = elementOf(type)
  const { keyType, valueType } = type as DuckDBMapType
  const parts =
    element !== null
      ? [element]
      : type.typeId === DuckDBTypeId.MAP
        ? [keyType, valueType]
        : fieldsOf(type, '').map((field) => field.type)
  return { type, isNullable: type.typeId === DuckDBTypeId.SQLNULL, parts: parts.map(shapeOf) }
}

/** ClickHouse's name of the type. */
export function nameOf({ type, isNullable, parts }: Shape): string {
  if (type.typeId === DuckDBTypeId.SQLNULL) return 'Nullable(Nothing)'
  if (elementOf(type) !== null) return `Array(${nameOf(parts[0]!)})`
  if (type.typeId === DuckDBTypeId.MAP) return `Map(${parts.map(nameOf).join(', ')})`
  if (type.typeId === DuckDBTypeId.STRUCT) {
    const names = fieldsOf(type, '').map(({ name }) => name)
    return `Tuple(${parts.map((part, at) => `${names[at]} ${nameOf(part)}`.trim()).join(', ')})`
  }
  return isNullable ? `Nullable(${typeName(type)})` : typeName(type)
}

/** Lists, tuples and maps are never Nullable in ClickHouse: a NULL is an empty one. */
function findNulls(shape: Shape, vector: Vector, rows: number): void {
  const { type, parts } = shape
  if (type.typeId === DuckDBTypeId.STRUCT) {
    for (const [at, part] of parts.entries())
      findNulls(part, duckdb.struct_vector_get_child(vector, at), rows)
    return
  }
  if (parts.length > 0) {
    const child = duckdb.list_vector_get_child(vector)
    const count = duckdb.list_vector_get_size(vector)
    if (parts.length === 1) findNulls(parts[0]!, child, count)
    else
      for (const [at, part] of parts.entries())
        findNulls(part, duckdb.struct_vector_get_child(child, at), count)
    return
  }
  if (shape.isNullable) return
  const isNull = nullsOf(vector, rows)
  if (isNull === noNulls) return
  for (let row = 0; row < rows && !shape.isNullable; row += 1) shape.isNullable = isNull(row)
}

/** Of a vector without NULLs. */
export const noNulls = (_row: number): boolean => false

export function nullsOf(vector: Vector, rows: number): (row: number) => boolean {
  const bytes = duckdb.vector_get_validity(vector, Math.ceil(rows / 64) * 8) as Uint8Array | null
  if (!bytes) return noNulls
  return (row) => (bytes[row >> 3]! & (1 << (row & 7))) === 0
}
