// Writes results as Arrow files and streams, a record batch per chunk, straight from DuckDB's
// vectors. Thread: main of a query process.

import type { DuckDBDecimalType } from '@duckdb/node-api'
import { DuckDBTypeId } from '@duckdb/node-api/lib/DuckDBTypeId.js'
import duckdb, { type Vector } from '@duckdb/node-bindings'
import {
  Binary,
  Bool,
  type Data,
  type DataType,
  DateDay,
  Decimal,
  Field,
  FixedSizeBinary,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  List,
  Map_,
  makeData,
  Null,
  RecordBatch,
  RecordBatchFileWriter,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  TimestampMicrosecond,
  TimestampMillisecond,
  TimestampNanosecond,
  TimestampSecond,
  Uint8,
  Uint16,
  Uint32,
  Uint64,
  Utf8,
} from 'apache-arrow'
import type { Format } from '../formats/formats.ts'
import { type DuckColumn, elementOf, fieldsOf } from './nested-text.ts'
import {
  copyStrings,
  nullsOf,
  type Shape,
  shapesOf,
  type TakenChunk,
  textTypes,
} from './row-bytes.ts'

/** Arrow type and bytes of a value; DuckDB has the same layout. */
const fixed: Readonly<Partial<Record<DuckDBTypeId, readonly [DataType, number]>>> = {
  [DuckDBTypeId.TINYINT]: [new Int8(), 1],
  [DuckDBTypeId.SMALLINT]: [new Int16(), 2],
  [DuckDBTypeId.INTEGER]: [new Int32(), 4],
  [DuckDBTypeId.BIGINT]: [new Int64(), 8],
  [DuckDBTypeId.UTINYINT]: [new Uint8(), 1],
  [DuckDBTypeId.USMALLINT]: [new Uint16(), 2],
  [DuckDBTypeId.UINTEGER]: [new Uint32(), 4],
  [DuckDBTypeId.UBIGINT]: [new Uint64(), 8],
  [DuckDBTypeId.FLOAT]: [new Float32(), 4],
  [DuckDBTypeId.DOUBLE]: [new Float64(), 8],
  [DuckDBTypeId.DATE]: [new DateDay(), 4],
  [DuckDBTypeId.TIMESTAMP_S]: [new TimestampSecond('UTC'), 8],
  [DuckDBTypeId.TIMESTAMP_MS]: [new TimestampMillisecond('UTC'), 8],
  [DuckDBTypeId.TIMESTAMP]: [new TimestampMicrosecond('UTC'), 8],
  [DuckDBTypeId.TIMESTAMP_TZ]: [new TimestampMicrosecond('UTC'), 8],
  [DuckDBTypeId.TIMESTAMP_NS]: [new TimestampNanosecond('UTC'), 8],
  // As ClickHouse: integers and UUIDs of 128 bits are bytes.
  [DuckDBTypeId.HUGEINT]: [new FixedSizeBinary(16), 16],
  [DuckDBTypeId.UHUGEINT]: [new FixedSizeBinary(16), 16],
  [DuckDBTypeId.UUID]: [new FixedSizeBinary(16), 16],
}

/** Bytes of a decimal in DuckDB by its largest width. */
const decimalBytes = [
  [4, 2],
  [9, 4],
  [18, 8],
  [38, 16],
] as const

/** The pieces of the whole result. */
export function* arrowPieces(
  format: Format,
  columns: readonly DuckColumn[],
  chunks: readonly TakenChunk[],
): Generator<Uint8Array> {
  const shapes = shapesOf(columns, chunks)
  const fields = shapes.map(
    (shape, at) => new Field(columns[at]!.name, typeOf(shape), shape.isNullable),
  )
  const schema = new Schema(fields)
  const writer =
    format.name === 'ArrowStream' ? new RecordBatchStreamWriter() : new RecordBatchFileWriter()
  writer.reset(undefined, schema)
  for (const [chunk, rows] of chunks) {
    const children = shapes.map((shape, at) =>
      dataOf(shape, duckdb.data_chunk_get_vector(chunk.chunk, at), rows),
    )
    const data = makeData({ type: new Struct(fields), length: rows, nullCount: 0, children })
    writer.write(new RecordBatch(schema, data))
  }
  writer.finish()
  yield writer.toUint8Array(true)
}

function typeOf({ type, parts }: Shape): DataType {
  const known = fixed[type.typeId]?.[0]
  if (known !== undefined) return known
  if (type.typeId === DuckDBTypeId.SQLNULL) return new Null()
  if (type.typeId === DuckDBTypeId.BOOLEAN) return new Bool()
  if (type.typeId === DuckDBTypeId.DECIMAL) {
    const { width, scale } = type as DuckDBDecimalType
    return new Decimal(scale, width, 128)
  }
  if (parts.length === 0) return type.typeId === DuckDBTypeId.BLOB ? new Binary() : new Utf8()
  const field = (name: string, part: Shape): Field => new Field(name, typeOf(part), part.isNullable)
  if (elementOf(type) !== null) return new List(field('item', parts[0]!))
  if (type.typeId === DuckDBTypeId.STRUCT)
    return new Struct(
      fieldsOf(type, '').map(({ name }, at) => field(name || String(at + 1), parts[at]!)),
    )
  return new Map_(
    new Field(
      'entries',
      new Struct<{ key: DataType; value: DataType }>([
        field('key', parts[0]!),
        field('value', parts[1]!),
      ]),
      false,
    ),
  )
}

function dataOf(shape: Shape, vector: Vector, length: number): Data {
  const { type, parts } = shape
  const made = typeOf(shape)
  if (type.typeId === DuckDBTypeId.SQLNULL) return makeData({ type: new Null(), length })
  const isNull = nullsOf(vector, length)
  const nullBitmap = bitsOf(length, (row) => !isNull(row))
  const common = { type: made, length, nullBitmap } as const
  if (type.typeId === DuckDBTypeId.STRUCT) {
    const children = parts.map((part, at) =>
      dataOf(part, duckdb.struct_vector_get_child(vector, at), length),
    )
    return makeData({ ...common, type: made as Struct, children })
  }
  if (parts.length > 0) {
    const valueOffsets = listOffsets(vector, length, isNull)
    const inner = duckdb.list_vector_get_child(vector)
    const count = valueOffsets[length]!
    const child =
      parts.length === 1
        ? dataOf(parts[0]!, inner, count)
        : makeData({
            type: (made as Map_).children[0]!.type as Struct,
            length: count,
            children: parts.map((part, at) =>
              dataOf(part, duckdb.struct_vector_get_child(inner, at), count),
            ),
          })
    return makeData({ ...common, type: made as List, valueOffsets, child })
  }
  if (textTypes.has(type.typeId)) return textData(made as Utf8, vector, length, isNull)
  if (type.typeId === DuckDBTypeId.BOOLEAN) {
    const bytes = duckdb.vector_get_data(vector, length)
    return makeData({
      ...common,
      type: made as Bool,
      data: bitsOf(length, (row) => bytes[row] === 1),
    })
  }
  if (type.typeId === DuckDBTypeId.DECIMAL) {
    const { width } = type as DuckDBDecimalType
    const bytes = decimalBytes.find(([most]) => width <= most)![1]
    const data = widened(duckdb.vector_get_data(vector, length * bytes), bytes, length)
    return makeData({ ...common, type: made as Decimal, data: new Uint32Array(data.buffer) })
  }
  const vectorBytes = duckdb.vector_get_data(vector, length * fixed[type.typeId]![1])
  const bytes = type.typeId === DuckDBTypeId.UUID ? uuidBytes(vectorBytes) : vectorBytes
  // Reason for the cast: makeData only keeps the bytes, whichever array of numbers they are in.
  const data = new (made.ArrayType as Uint8ArrayConstructor)(Uint8Array.from(bytes).buffer)
  return makeData({ ...common, type: made as Int64, data: data as unknown as BigInt64Array })
}

/** The items of a materialized chunk lie in the order of its rows. */
function listOffsets(vector: Vector, length: number, isNull: (row: number) => boolean): Int32Array {
  const data = duckdb.vector_get_data(vector, length * 16)
  const entries = new BigUint64Array(data.buffer, data.byteOffset, length * 2)
  const offsets = new Int32Array(length + 1)
  for (let row = 0; row < length; row += 1) {
    const size = isNull(row) ? 0 : Number(entries[row * 2 + 1])
    if (size > 0 && Number(entries[row * 2]) !== offsets[row])
      throw new Error('a list is not in order')
    offsets[row + 1] = offsets[row]! + size
  }
  return offsets
}

function textData(
  type: Utf8,
  vector: Vector,
  length: number,
  isNull: (row: number) => boolean,
): Data {
  const entries = duckdb.vector_get_data(vector, length * 16)
  const words = new Uint32Array(entries.buffer, entries.byteOffset, length * 4)
  for (let row = 0; row < length; row += 1) if (isNull(row)) words[row * 4] = 0
  const { bytes, ends } = copyStrings(entries, length)
  const valueOffsets = new Int32Array(length + 1)
  valueOffsets.set(ends, 1)
  const nullBitmap = bitsOf(length, (row) => !isNull(row))
  return makeData({ type, length, nullBitmap, valueOffsets, data: bytes })
}

function bitsOf(length: number, isSet: (row: number) => boolean): Uint8Array {
  const bits = new Uint8Array(Math.ceil(length / 64) * 8)
  for (let row = 0; row < length; row += 1) if (isSet(row)) bits[row >> 3]! |= 1 << (row & 7)
  return bits
}

/** DuckDB has the bytes of a UUID backwards, with the first bit flipped. */
function uuidBytes(vectorBytes: Uint8Array): Uint8Array {
  const bytes = Uint8Array.from(vectorBytes)
  for (let at = 0; at < bytes.length; at += 16) {
    bytes.subarray(at, at + 16).reverse()
    bytes[at]! ^= 0x80
  }
  return bytes
}

/** Little-endian integers of 16 bytes. */
function widened(data: Uint8Array, bytes: number, length: number): Uint8Array {
  const wide = new Uint8Array(length * 16)
  for (let row = 0; row < length; row += 1) {
    wide.fill(data[row * bytes + bytes - 1]! >= 0x80 ? 0xff : 0, row * 16, row * 16 + 16)
    wide.set(data.subarray(row * bytes, (row + 1) * bytes), row * 16)
  }
  return wide
}
