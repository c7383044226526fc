// Wraps a statement so that DuckDB renders the result's cells as numbers, booleans and strings:
// ClickHouse type names, times in ClickHouse's format. Thread: main of a query process.
//
//   user's statement -> SELECT <rendered c0>, … FROM (<statement>) AS q(c0, …)   any format
//                    -> SELECT to_json({…}) …       JSONEachRow: whole rows, much faster
import {
  type DuckDBArrayType,
  type DuckDBDecimalType,
  type DuckDBListType,
  type DuckDBMapType,
  type DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
} from '@duckdb/node-api'
import type { CellKind, ResultColumn } from '../formats.ts'
import { duckdbName, duckdbString } from '../sql/quoting.ts'
import { typeNames } from './types.ts'

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

/** The statement with rendered cells, plus a last column that is true only in the end row. */
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
 * The statement with each row rendered as JSON text, NULL only in the end row; null when a column
 * type or name requires the slow path.
 */
export function jsonRowsSql(
  sql: string,
  columns: readonly PlannedColumn[],
  quotes64: boolean,
): string | null {
  const names = new Set(columns.map(({ name }) => name.toLowerCase()))
  if (names.size !== columns.length || names.has('') || !columns.every(isEasy)) return null
  const fields = columns.map(
    ({ name, type }, at) => `${duckdbName(name)} := ${jsonSql(type, `q.c${at}`, quotes64)}`,
  )
  const row = `to_json(struct_pack(${fields.join(', ')}))`
  return `SELECT CAST(${row} AS VARCHAR) FROM ${wrapped(sql, columns.length)}`
}

/** Runs the rendered statement without keeping its rows, to get the error of a failed stream. */
export function probeSql(rendered: string): string {
  return `SELECT max(hash(r)) FROM (${rendered}) AS r`
}

/** The line break stops a trailing comment from swallowing what follows. */
function wrapped(sql: string, count: number): string {
  const names = Array.from({ length: count }, (_, at) => `c${at}`)
  return `(${sql}\n) AS q(${names.join(', ')})`
}

const kinds: readonly (readonly [RegExp, CellKind])[] = [
  [/^U?(TINYINT|SMALLINT|INTEGER)$/, 'number'],
  [/^U?(BIGINT|HUGEINT)$/, 'big'],
  [/^(LIST|ARRAY|STRUCT|MAP)$/, 'nested'],
  [/^(DOUBLE|FLOAT)$/, 'float'],
  [/^BOOLEAN$/, 'bool'],
  [/^DECIMAL$/, 'decimal'],
]

function kindOf({ typeId }: DuckDBType): CellKind {
  return kinds.find(([types]) => types.test(DuckDBTypeId[typeId]))?.[1] ?? 'text'
}

/** Types whose JSON DuckDB already writes in the required format. */
function isEasy({ type }: { readonly type: DuckDBType }): boolean {
  const kind = kindOf(type)
  if (kind !== 'nested') return kind !== 'decimal' && !isHuge(type)
  return type.typeId === DuckDBTypeId.LIST && isEasy({ type: (type as DuckDBListType).valueType })
}

function isHuge({ typeId }: DuckDBType): boolean {
  return typeId === DuckDBTypeId.HUGEINT || typeId === DuckDBTypeId.UHUGEINT
}

function cellSql(type: DuckDBType, value: string, { isJson, quotes64 }: RenderStyle): string {
  switch (kindOf(type)) {
    case 'number':
    case 'bool':
      return value
    case 'float':
      return floatSql(type, value)
    case 'nested':
      return isJson
        ? `CAST(to_json(${jsonSql(type, value, quotes64)}) AS VARCHAR)`
        : nestedTextSql(type, value)
    default:
      return textSql(type, value)
  }
}

/** A 32-bit float is written with its own digits, not with those of its 64-bit value. */
function floatSql({ typeId }: DuckDBType, value: string): string {
  return typeId === DuckDBTypeId.FLOAT ? `CAST(CAST(${value} AS VARCHAR) AS DOUBLE)` : value
}

const clock = '%Y-%m-%d %H:%M:%S'

function textSql({ typeId }: DuckDBType, value: string): string {
  switch (typeId) {
    case DuckDBTypeId.TIMESTAMP_MS:
      return `strftime(CAST(${value} AS TIMESTAMP), '${clock}.%g')`
    case DuckDBTypeId.TIMESTAMP:
      return `strftime(${value}, '${clock}.%f')`
    case DuckDBTypeId.TIMESTAMP_NS:
      return `strftime(${value}, '${clock}.%n')`
    case DuckDBTypeId.TIMESTAMP_TZ:
      return `strftime(timezone('UTC', ${value}), '${clock}.%f')`
    default:
      return `CAST(${value} AS VARCHAR)`
  }
}

/** An expression that `to_json` renders in the required format. */
function jsonSql(type: DuckDBType, value: string, quotes64: boolean): string {
  switch (type.typeId) {
    case DuckDBTypeId.LIST:
    case DuckDBTypeId.ARRAY: {
      const { valueType } = type as DuckDBListType | DuckDBArrayType
      const item = itemName(value)
      const made = jsonSql(valueType, item, quotes64)
      return made === item ? value : `list_transform(${value}, lambda ${item}: ${made})`
    }
    case DuckDBTypeId.STRUCT:
      return structSql(type as DuckDBStructType, value, quotes64)
    case DuckDBTypeId.MAP:
      return value
    default:
      break
  }
  switch (kindOf(type)) {
    case 'number':
    case 'bool':
    case 'decimal':
      return value
    case 'big':
      return quotes64 || isHuge(type) ? `CAST(${value} AS VARCHAR)` : value
    case 'float': {
      const float = floatSql(type, value)
      return `CASE WHEN isfinite(${float}) THEN ${float} END`
    }
    default:
      return textSql(type, value)
  }
}

function structSql(type: DuckDBStructType, value: string, quotes64: boolean): string {
  if (type.entryNames.some((name) => name === '')) return value
  const fields = type.entryNames.map((name, at) => {
    const field = `struct_extract(${value}, ${duckdbString(name)})`
    return `${duckdbName(name)} := ${jsonSql(type.entryTypes[at]!, field, quotes64)}`
  })
  return `CASE WHEN ${value} IS NOT NULL THEN struct_pack(${fields.join(', ')}) END`
}

/** Lists and tuples in ClickHouse's text format: `['a','b']`, `(1,'x')`. */
function nestedTextSql(type: DuckDBType, value: string): string {
  switch (type.typeId) {
    case DuckDBTypeId.LIST:
    case DuckDBTypeId.ARRAY: {
      const { valueType } = type as DuckDBListType | DuckDBArrayType
      const item = itemName(value)
      const made = `coalesce(${nestedTextSql(valueType, item)}, 'NULL')`
      return `'[' || array_to_string(list_transform(${value}, lambda ${item}: ${made}), ',') || ']'`
    }
    case DuckDBTypeId.STRUCT: {
      const { entryNames, entryTypes } = type as DuckDBStructType
      const parts = entryTypes.map((entry, at) => {
        const field = entryNames[at] === '' ? at + 1 : duckdbString(entryNames[at]!)
        return `coalesce(${nestedTextSql(entry, `struct_extract(${value}, ${field})`)}, 'NULL')`
      })
      return `'(' || ${parts.join(` || ',' || `)} || ')'`
    }
    default:
      break
  }
  if (kindOf(type) !== 'text') return `CAST(${value} AS VARCHAR)`
  const plain = textSql(type, value)
  return `'''' || replace(replace(${plain}, '\\', '\\\\'), '''', '\\''') || ''''`
}

/** Nested lambdas need distinct parameter names. */
function itemName(value: string): string {
  const used = [...value.matchAll(/\bi(\d+)_/g)].map((found) => Number(found[1]))
  return `i${Math.max(0, ...used) + 1}_`
}

function typeName(type: DuckDBType): string {
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
      return typeNames.get(DuckDBTypeId[type.typeId]) ?? 'String'
  }
}
