// Has DuckDB itself render a result's cells, so that only numbers, truths and texts come out:
// types by their ClickHouse names, times in ClickHouse's writing. Thread: main of a query process.
//
//   user's statement -> SELECT <rendered c0>, … FROM (<statement>) AS q(c0, …)   any format
//                    -> SELECT to_json({…}) …       JSONEachRow: whole rows, far faster
import {
  type DuckDBArrayType,
  type DuckDBDecimalType,
  type DuckDBListType,
  type DuckDBMapType,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from '@duckdb/node-api'
import type { CellKind, ResultColumn } from '../formats/cells.ts'

export interface PlannedColumn {
  readonly name: string
  readonly type: DuckDBType
}

export interface RenderStyle {
  readonly isJson: boolean
  readonly quotes64: boolean
}

export function resultColumns(columns: readonly PlannedColumn[]): readonly ResultColumn[] {
  return columns.map(({ name, type }) => ({ name, type: typeName(type), kind: kindOf(type) }))
}

/** The statement with every cell rendered, one column each; the last one is true in the end row. */
export function renderedSql(
  sql: string,
  columns: readonly PlannedColumn[],
  style: RenderStyle,
): string {
  const cells = columns.map(({ type }, at) => cellSql(type, `q.c${at}`, style))
  return `SELECT ${[...cells, 'false'].join(', ')} FROM ${wrapped(sql, columns.length)}`
}

/** The end row of `renderedSql`. */
export function endRowSql(columns: readonly PlannedColumn[]): string {
  return [...columns.map(() => 'NULL'), 'true'].join(', ')
}

/**
 * The statement as whole rows of JSON text, which are never NULL but in an end row; null when a
 * type or a name asks for the slow way.
 */
export function jsonRowsSql(
  sql: string,
  columns: readonly PlannedColumn[],
  quotes64: boolean,
): string | null {
  const names = new Set(columns.map(({ name }) => name.toLowerCase()))
  if (names.size !== columns.length || names.has('') || !columns.every(isEasy)) return null
  const fields = columns.map(
    ({ name, type }, at) => `${quoted(name)} := ${jsonSql(type, `q.c${at}`, quotes64)}`,
  )
  const row = `to_json(struct_pack(${fields.join(', ')}))`
  return `SELECT CAST(${row} AS VARCHAR) FROM ${wrapped(sql, columns.length)}`
}

/** Runs what is rendered to its end without keeping it: tells why a stream failed. */
export function probeSql(rendered: string): string {
  return `SELECT max(hash(r)) FROM (${rendered}) AS r`
}

/** A comment at the end of a statement must not swallow what follows. */
function wrapped(sql: string, count: number): string {
  const names = Array.from({ length: count }, (_, at) => `c${at}`)
  return `(${sql}\n) AS q(${names.join(', ')})`
}

const small = new Set([
  DuckDBTypeId.TINYINT,
  DuckDBTypeId.SMALLINT,
  DuckDBTypeId.INTEGER,
  DuckDBTypeId.UTINYINT,
  DuckDBTypeId.USMALLINT,
  DuckDBTypeId.UINTEGER,
])
const big = new Set([
  DuckDBTypeId.BIGINT,
  DuckDBTypeId.UBIGINT,
  DuckDBTypeId.HUGEINT,
  DuckDBTypeId.UHUGEINT,
])
const nested = new Set([
  DuckDBTypeId.LIST,
  DuckDBTypeId.ARRAY,
  DuckDBTypeId.STRUCT,
  DuckDBTypeId.MAP,
])

function kindOf({ typeId }: DuckDBType): CellKind {
  if (small.has(typeId)) return 'number'
  if (big.has(typeId)) return 'big'
  if (nested.has(typeId)) return 'nested'
  if (typeId === DuckDBTypeId.DOUBLE || typeId === DuckDBTypeId.FLOAT) return 'float'
  if (typeId === DuckDBTypeId.BOOLEAN) return 'bool'
  return typeId === DuckDBTypeId.DECIMAL ? 'decimal' : 'text'
}

/** Types whose JSON the engine writes as we would. */
function isEasy({ type }: { readonly type: DuckDBType }): boolean {
  const kind = kindOf(type)
  if (kind !== 'nested') return kind !== 'decimal' && !isHuge(type)
  return type.typeId === DuckDBTypeId.LIST && isEasy({ type: (type as DuckDBListType).valueType })
}

function isHuge({ typeId }: DuckDBType): boolean {
  return typeId === DuckDBTypeId.HUGEINT || typeId === DuckDBTypeId.UHUGEINT
}

function cellSql(type: DuckDBType, place: string, { isJson, quotes64 }: RenderStyle): string {
  switch (kindOf(type)) {
    case 'number':
    case 'bool':
      return place
    case 'float':
      return floatSql(type, place)
    case 'nested':
      return isJson
        ? `CAST(to_json(${jsonSql(type, place, quotes64)}) AS VARCHAR)`
        : nestedTextSql(type, place)
    default:
      return textSql(type, place)
  }
}

/** A short float is written with its own few digits and not with those of the long one. */
function floatSql({ typeId }: DuckDBType, place: string): string {
  return typeId === DuckDBTypeId.FLOAT ? `CAST(CAST(${place} AS VARCHAR) AS DOUBLE)` : place
}

const clock = '%Y-%m-%d %H:%M:%S'

function textSql({ typeId }: DuckDBType, place: string): string {
  switch (typeId) {
    case DuckDBTypeId.TIMESTAMP_MS:
      return `strftime(CAST(${place} AS TIMESTAMP), '${clock}.%g')`
    case DuckDBTypeId.TIMESTAMP:
      return `strftime(${place}, '${clock}.%f')`
    case DuckDBTypeId.TIMESTAMP_NS:
      return `strftime(${place}, '${clock}.%n')`
    case DuckDBTypeId.TIMESTAMP_TZ:
      return `strftime(timezone('UTC', ${place}), '${clock}.%f')`
    default:
      return `CAST(${place} AS VARCHAR)`
  }
}

/** A value of which `to_json` makes what the format asks for. */
function jsonSql(type: DuckDBType, place: string, quotes64: boolean): string {
  switch (type.typeId) {
    case DuckDBTypeId.LIST:
    case DuckDBTypeId.ARRAY: {
      const { valueType } = type as DuckDBListType | DuckDBArrayType
      const item = itemName(place)
      const made = jsonSql(valueType, item, quotes64)
      return made === item ? place : `list_transform(${place}, lambda ${item}: ${made})`
    }
    case DuckDBTypeId.STRUCT:
      return structSql(type as DuckDBStructType, place, quotes64)
    case DuckDBTypeId.MAP:
      return place
    default:
      break
  }
  switch (kindOf(type)) {
    case 'number':
    case 'bool':
    case 'decimal':
      return place
    case 'big':
      return quotes64 || isHuge(type) ? `CAST(${place} AS VARCHAR)` : place
    case 'float': {
      const value = floatSql(type, place)
      return `CASE WHEN isfinite(${value}) THEN ${value} END`
    }
    default:
      return textSql(type, place)
  }
}

function structSql(type: DuckDBStructType, place: string, quotes64: boolean): string {
  if (type.entryNames.some((name) => name === '')) return place
  const fields = type.entryNames.map((name, at) => {
    const field = `struct_extract(${place}, ${text(name)})`
    return `${quoted(name)} := ${jsonSql(type.entryTypes[at]!, field, quotes64)}`
  })
  return `CASE WHEN ${place} IS NOT NULL THEN struct_pack(${fields.join(', ')}) END`
}

/** As ClickHouse writes lists and tuples into lines: `['a','b']`, `(1,'x')`. */
function nestedTextSql(type: DuckDBType, place: string): string {
  switch (type.typeId) {
    case DuckDBTypeId.LIST:
    case DuckDBTypeId.ARRAY: {
      const { valueType } = type as DuckDBListType | DuckDBArrayType
      const item = itemName(place)
      const made = `coalesce(${nestedTextSql(valueType, item)}, 'NULL')`
      return `'[' || array_to_string(list_transform(${place}, lambda ${item}: ${made}), ',') || ']'`
    }
    case DuckDBTypeId.STRUCT: {
      const { entryNames, entryTypes } = type as DuckDBStructType
      const parts = entryTypes.map((entry, at) => {
        const field = entryNames[at] === '' ? at + 1 : text(entryNames[at]!)
        return `coalesce(${nestedTextSql(entry, `struct_extract(${place}, ${field})`)}, 'NULL')`
      })
      return `'(' || ${parts.join(` || ',' || `)} || ')'`
    }
    default:
      break
  }
  if (kindOf(type) !== 'text') return `CAST(${place} AS VARCHAR)`
  const plain = textSql(type, place)
  return `'''' || replace(replace(${plain}, '\\', '\\\\'), '''', '\\''') || ''''`
}

/** Lambdas inside lambdas need names of their own. */
function itemName(place: string): string {
  const used = [...place.matchAll(/\bi(\d+)_/g)].map((found) => Number(found[1]))
  return `i${Math.max(0, ...used) + 1}_`
}

const plainNames: Readonly<Partial<Record<DuckDBTypeId, string>>> = {
  [DuckDBTypeId.BOOLEAN]: 'Bool',
  [DuckDBTypeId.TINYINT]: 'Int8',
  [DuckDBTypeId.SMALLINT]: 'Int16',
  [DuckDBTypeId.INTEGER]: 'Int32',
  [DuckDBTypeId.BIGINT]: 'Int64',
  [DuckDBTypeId.HUGEINT]: 'Int128',
  [DuckDBTypeId.UTINYINT]: 'UInt8',
  [DuckDBTypeId.USMALLINT]: 'UInt16',
  [DuckDBTypeId.UINTEGER]: 'UInt32',
  [DuckDBTypeId.UBIGINT]: 'UInt64',
  [DuckDBTypeId.UHUGEINT]: 'UInt128',
  [DuckDBTypeId.FLOAT]: 'Float32',
  [DuckDBTypeId.DOUBLE]: 'Float64',
  [DuckDBTypeId.DATE]: 'Date',
  [DuckDBTypeId.UUID]: 'UUID',
  [DuckDBTypeId.TIMESTAMP_S]: 'DateTime',
  [DuckDBTypeId.TIMESTAMP_MS]: 'DateTime64(3)',
  [DuckDBTypeId.TIMESTAMP]: 'DateTime64(6)',
  [DuckDBTypeId.TIMESTAMP_TZ]: 'DateTime64(6)',
  [DuckDBTypeId.TIMESTAMP_NS]: 'DateTime64(9)',
  [DuckDBTypeId.SQLNULL]: 'Nullable(Nothing)',
}

export function typeName(type: DuckDBType): string {
  switch (type.typeId) {
    case DuckDBTypeId.DECIMAL: {
      const { width, scale } = type as DuckDBDecimalType
      return `Decimal(${width}, ${scale})`
    }
    case DuckDBTypeId.LIST:
    case DuckDBTypeId.ARRAY:
      return `Array(${typeName((type as DuckDBListType | DuckDBArrayType).valueType)})`
    case DuckDBTypeId.MAP: {
      const { keyType, valueType } = type as DuckDBMapType
      return `Map(${typeName(keyType)}, ${typeName(valueType)})`
    }
    case DuckDBTypeId.STRUCT: {
      const { entryNames, entryTypes } = type as DuckDBStructType
      const fields = entryTypes.map((entry, at) => `${entryNames[at]} ${typeName(entry)}`.trim())
      return `Tuple(${fields.join(', ')})`
    }
    default:
      return plainNames[type.typeId] ?? 'String'
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

function text(value: string): string {
  return `'${value.replaceAll("'", "''")}'`
}
