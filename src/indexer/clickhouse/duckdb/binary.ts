// Encodes results as RowBinary and Native, ClickHouse's binary formats, straight from DuckDB's
// vectors. Thread: main of a query process.
//
//   Native     per chunk: columns, rows, then by column: name, type, null flags, values
//   RowBinary  by row: null flag and value of each column

import type { DuckDBDecimalType, DuckDBType } from '@duckdb/node-api'
import { DuckDBTypeId } from '@duckdb/node-api/lib/DuckDBTypeId.js'
import duckdb, { type Vector } from '@duckdb/node-bindings'
import type { Format, OutputOptions } from '../formats/formats.ts'
import type { DuckColumn } from './nested-text.ts'
import {
  copyStrings,
  nameOf,
  noNulls,
  nullsOf,
  type Shape,
  shapesOf,
  type TakenChunk,
  textTypes,
} from './row-bytes.ts'
import { isEnum, nullable, withoutNull, zoneOf } from './typing.ts'

/** Reads the values of one vector. */
interface Reader {
  isNull(row: number): boolean
  /** Writes one value as RowBinary has it. */
  put(out: BinaryFormatWriter, row: number): void
  /** Writes the values of these rows as Native has them. */
  putAll(out: BinaryFormatWriter, rows: readonly number[]): void
}

/** The pieces of the whole result. */
export function* binaryPieces(
  format: Format,
  columns: readonly DuckColumn[],
  chunks: readonly TakenChunk[],
  { revision = 0 }: OutputOptions,
): Generator<Uint8Array> {
  const shapes = shapesOf(columns, chunks)
  const named = shapes.map((shape, at) => {
    const { name, shown = '' } = columns[at]!
    if (zoneOf(shown) === null && !isEnum(shown)) return { name, type: nameOf(shape) }
    return { name, type: shape.isNullable ? nullable(shown) : withoutNull(shown) }
  })
  const isNative = format.name === 'Native'
  const head = new BinaryFormatWriter()
  if (format.heads > 0) head.varint(columns.length)
  if (format.heads > 0) for (const { name } of named) head.text(name)
  if (format.heads > 1) for (const { type } of named) head.text(type)
  yield head.take()
  for (const [chunk, rows] of chunks) {
    const readers = shapes.map((shape, at) =>
      readerOf(shape, duckdb.data_chunk_get_vector(chunk.chunk, at), chunk.rowCount),
    )
    const out = new BinaryFormatWriter()
    if (isNative) nativeBlock(out, { named, readers, shapes, rows, revision })
    else
      for (let row = 0; row < rows; row += 1)
        for (const [at, reader] of readers.entries()) putValue(out, shapes[at]!, reader, row)
    yield out.take()
  }
}

/** Revisions of the native protocol from which a block has these parts. */
const revisionOfSerialization = 54_454
const revisionOfZones = 54_337

function nativeBlock(
  out: BinaryFormatWriter,
  block: {
    readonly named: readonly { readonly name: string; readonly type: string }[]
    readonly readers: readonly Reader[]
    readonly shapes: readonly Shape[]
    readonly rows: number
    readonly revision: number
  },
): void {
  const { named, readers, shapes, rows, revision } = block
  // No overflow rows, no bucket.
  if (revision > 0) out.bytes(Buffer.from([1, 0, 2, 255, 255, 255, 255, 0]))
  out.varint(named.length)
  out.varint(rows)
  const all = Array.from({ length: rows }, (_, row) => row)
  for (const [at, { name, type }] of named.entries()) {
    out.text(name)
    const hasZone = revision < revisionOfZones && type.startsWith('DateTime(')
    out.text(hasZone ? 'DateTime' : type)
    if (revision >= revisionOfSerialization) out.byte(0)
    putColumn(out, shapes[at]!, readers[at]!, all)
  }
}

function putValue(
  out: BinaryFormatWriter,
  { isNullable }: Shape,
  reader: Reader,
  row: number,
): void {
  const isNull = isNullable && reader.isNull(row)
  if (isNullable) out.byte(isNull ? 1 : 0)
  if (!isNull) reader.put(out, row)
}

function putColumn(
  out: BinaryFormatWriter,
  { isNullable }: Shape,
  reader: Reader,
  rows: readonly number[],
): void {
  if (isNullable) for (const row of rows) out.byte(reader.isNull(row) ? 1 : 0)
  reader.putAll(out, rows)
}

function readerOf(shape: Shape, vector: Vector, rows: number): Reader {
  const { type, parts } = shape
  const isNull = nullsOf(vector, rows)
  if (type.typeId === DuckDBTypeId.STRUCT) {
    const fields = parts.map((part, at) =>
      readerOf(part, duckdb.struct_vector_get_child(vector, at), rows),
    )
    return {
      isNull,
      put: (out, row) => {
        for (const [at, part] of parts.entries()) putValue(out, part, fields[at]!, row)
      },
      putAll: (out, all) => {
        for (const [at, part] of parts.entries()) putColumn(out, part, fields[at]!, all)
      },
    }
  }
  if (parts.length > 0) return listReader(parts, vector, rows, isNull)
  return scalarReader(type, vector, rows, isNull)
}

/** A map is a list of pairs. */
function listReader(
  parts: readonly Shape[],
  vector: Vector,
  rows: number,
  isNull: (row: number) => boolean,
): Reader {
  const data = duckdb.vector_get_data(vector, rows * 16)
  const entries = new BigUint64Array(data.buffer, data.byteOffset, rows * 2)
  const child = duckdb.list_vector_get_child(vector)
  const size = duckdb.list_vector_get_size(vector)
  const readers =
    parts.length === 1
      ? [readerOf(parts[0]!, child, size)]
      : parts.map((part, at) => readerOf(part, duckdb.struct_vector_get_child(child, at), size))
  const rangeOf = (row: number) => {
    if (isNull(row)) return { begin: 0, end: 0 }
    const begin = Number(entries[row * 2])
    return { begin, end: begin + Number(entries[row * 2 + 1]) }
  }
  return {
    isNull,
    put: (out, row) => {
      const { begin, end } = rangeOf(row)
      out.varint(end - begin)
      for (let at = begin; at < end; at += 1)
        for (const [index, part] of parts.entries()) putValue(out, part, readers[index]!, at)
    },
    putAll: (out, all) => {
      const inner: number[] = []
      for (const row of all) {
        const { begin, end } = rangeOf(row)
        for (let at = begin; at < end; at += 1) inner.push(at)
        out.uint64(inner.length)
      }
      for (const [index, part] of parts.entries()) putColumn(out, part, readers[index]!, inner)
    },
  }
}

function scalarReader(
  type: DuckDBType,
  vector: Vector,
  rows: number,
  isNull: (row: number) => boolean,
): Reader {
  if (type.typeId === DuckDBTypeId.SQLNULL) {
    const none = (out: BinaryFormatWriter) => out.byte(0x30)
    const putAll: Reader['putAll'] = (out, all) => {
      for (const _ of all) none(out)
    }
    return { isNull: () => true, put: none, putAll }
  }
  const isText = textTypes.has(type.typeId)
  const put = isText ? stringPut(vector, rows, isNull) : fixedPut(type, vector, rows)
  const zeros = Buffer.alloc(isText ? 1 : widthsOf(type)[1])
  const whole = isText || isNull !== noNulls ? null : wholeVector(type, vector, rows)
  return {
    isNull,
    put,
    putAll: (out, all) => {
      if (whole !== null && isRange(all, rows)) return out.bytes(whole)
      for (const row of all)
        if (isNull(row)) out.bytes(zeros)
        else put(out, row)
    },
  }
}

/** The bytes of all values, where DuckDB has them as ClickHouse does. */
function wholeVector(type: DuckDBType, vector: Vector, rows: number): Uint8Array | null {
  const [width, taken] = widthsOf(type)
  if (width !== taken || type.typeId === DuckDBTypeId.UUID) return null
  return duckdb.vector_get_data(vector, rows * width)
}

/** Whether these are all the rows in their order. */
function isRange(all: readonly number[], rows: number): boolean {
  return all.length === rows && all.every((row, at) => row === at)
}

type Put = (out: BinaryFormatWriter, row: number) => void

/** The entry of a NULL may point anywhere, so its length is cleared before strings are read. */
function stringPut(vector: Vector, rows: number, isNull: (row: number) => boolean): Put {
  const data = duckdb.vector_get_data(vector, rows * 16)
  const words = new Uint32Array(data.buffer, data.byteOffset, rows * 4)
  for (let row = 0; row < rows; row += 1) if (isNull(row)) words[row * 4] = 0
  const { bytes, ends } = copyStrings(data, rows)
  return (out, row) => {
    const begin = row === 0 ? 0 : ends[row - 1]!
    out.varint(ends[row]! - begin)
    out.copy(bytes, begin, ends[row]!)
  }
}

/** Bytes of a value in DuckDB and in ClickHouse; the latter are the low ones. */
const widths: Readonly<Partial<Record<DuckDBTypeId, readonly [number, number]>>> = {
  [DuckDBTypeId.DATE]: [4, 2],
  [DuckDBTypeId.TIMESTAMP_S]: [8, 4],
  ...Object.fromEntries(
    (
      [
        [1, 'BOOLEAN TINYINT UTINYINT'],
        [2, 'SMALLINT USMALLINT'],
        [4, 'INTEGER UINTEGER FLOAT'],
        [8, 'BIGINT UBIGINT DOUBLE TIMESTAMP TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_TZ'],
        [16, 'HUGEINT UHUGEINT UUID'],
      ] as const
    ).flatMap(([width, names]) =>
      names.split(' ').map((name) => {
        return [DuckDBTypeId[name as keyof typeof DuckDBTypeId], [width, width]]
      }),
    ),
  ),
}

function fixedPut(type: DuckDBType, vector: Vector, rows: number): Put {
  const [width, taken] = widthsOf(type)
  const data = duckdb.vector_get_data(vector, rows * width)
  if (type.typeId === DuckDBTypeId.UUID)
    return (out, row) => {
      const low = data.subarray(row * 16, row * 16 + 8)
      const high = Buffer.from(data.subarray(row * 16 + 8, row * 16 + 16))
      // DuckDB flips the first bit, so that UUIDs sort as numbers.
      high[7]! ^= 0x80
      out.bytes(high)
      out.bytes(low)
    }
  if (taken > width)
    return (out, row) => {
      const value = Buffer.from(data.buffer, data.byteOffset + row * width, width).readInt16LE()
      out.int32(value)
    }
  return (out, row) => out.copy(data, row * width, row * width + taken)
}

function widthsOf(type: DuckDBType): readonly [number, number] {
  if (type.typeId !== DuckDBTypeId.DECIMAL) return widths[type.typeId]!
  const { width } = type as DuckDBDecimalType
  if (width <= 4) return [2, 4]
  if (width <= 9) return [4, 4]
  return width <= 18 ? [8, 8] : [16, 16]
}

// A growing buffer with the integers and strings of ClickHouse's binary formats.

const bytewiseMax = 128

export class BinaryFormatWriter {
  #buffer = Buffer.allocUnsafe(16_384)
  #length = 0

  byte(value: number): void {
    this.#room(1)
    this.#buffer[this.#length] = value
    this.#length += 1
  }

  bytes(bytes: Uint8Array): void {
    this.#room(bytes.length)
    this.#buffer.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** Part of an array; short parts are cheaper byte by byte. */
  copy(source: Uint8Array, begin: number, end: number): void {
    if (end - begin > bytewiseMax) {
      this.bytes(source.subarray(begin, end))
      return
    }
    this.#room(end - begin)
    const buffer = this.#buffer
    let to = this.#length
    for (let at = begin; at < end; at += 1) {
      buffer[to] = source[at]!
      to += 1
    }
    this.#length = to
  }

  int32(value: number): void {
    this.#room(4)
    this.#length = this.#buffer.writeInt32LE(value, this.#length)
  }

  uint64(value: number): void {
    this.#room(8)
    this.#length = this.#buffer.writeBigUInt64LE(BigInt(value), this.#length)
  }

  /** Seven bits a byte, the lowest first. */
  varint(value: number): void {
    let rest = value
    for (; rest >= 0x80; rest = Math.floor(rest / 128)) this.byte((rest & 0x7f) | 0x80)
    this.byte(rest)
  }

  text(text: string): void {
    const bytes = Buffer.from(text)
    this.varint(bytes.length)
    this.bytes(bytes)
  }

  /** The written bytes; the writer is not used after it. */
  take(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  #room(count: number): void {
    if (this.#length + count <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + count))
    larger.set(this.#buffer.subarray(0, this.#length))
    this.#buffer = larger
  }
}
