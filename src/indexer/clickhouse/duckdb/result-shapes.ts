// The types of a binary result, found in DuckDB's vectors: which columns have NULLs.
// Thread: main of a query process.
import type { DuckDBDataChunk, DuckDBMapType, DuckDBType } from '@duckdb/node-api'
import { SMALLINT, TINYINT, VARCHAR } from '@duckdb/node-api/lib/DuckDBType.js'
import { DuckDBTypeId } from '@duckdb/node-api/lib/DuckDBTypeId.js'
import duckdb, { type Vector } from '@duckdb/node-bindings'
import { source } from './rendering.ts'
import { type DuckColumn, elementOf, fieldsOf, kindOf, typeName } from './result-types.ts'
import { enumNumber, isEnum } from './typing.ts'

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
