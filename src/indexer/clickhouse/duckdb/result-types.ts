// Columns of a result: their DuckDB types, ClickHouse type names and the SQL of their values.
// Thread: main of a query process.
import type {
  DuckDBArrayType,
  DuckDBConnection,
  DuckDBDecimalType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  DuckDBType,
} from '@duckdb/node-api'
import { DuckDBTypeId } from '@duckdb/node-api/lib/DuckDBTypeId.js'
import { clickhouseName, duckdbString } from '../sql/quoting.ts'
import { typeNames, unknown } from './typing.ts'

export interface DuckColumn {
  /** '' for the field of an unnamed tuple. */
  readonly name: string
  readonly type: DuckDBType
  /** SQL of its value in the wrapped statement. */
  readonly value: string
  /** ClickHouse's name of the type, where it is more exact than DuckDB's type. */
  readonly shown?: string
  /** Fields of a tuple. */
  readonly fields: readonly DuckColumn[]
}

export type Kind = 'number' | 'big' | 'float' | 'bool' | 'decimal' | 'time' | 'nested' | 'text'

const kinds: readonly (readonly [RegExp, Kind])[] = [
  [/^U?(TINYINT|SMALLINT|INTEGER)$/, 'number'],
  [/^U?(BIGINT|HUGEINT)$/, 'big'],
  [/^(LIST|ARRAY|STRUCT|MAP)$/, 'nested'],
  [/^(DOUBLE|FLOAT)$/, 'float'],
  [/^BOOLEAN$/, 'bool'],
  [/^DECIMAL$/, 'decimal'],
  [/^(DATE|UUID|TIMESTAMP.*)$/, 'time'],
]
const kindByType = new Map(
  Object.values(DuckDBTypeId)
    .filter((id) => typeof id === 'number')
    .map((id) => [id, kinds.find(([types]) => types.test(DuckDBTypeId[id]))?.[1] ?? 'text']),
)

/** `time`: text without characters to escape. */
export function kindOf({ typeId }: DuckDBType): Kind {
  return kindByType.get(typeId) ?? 'text'
}

export function isHuge({ typeId }: DuckDBType): boolean {
  return typeId === DuckDBTypeId.HUGEINT || typeId === DuckDBTypeId.UHUGEINT
}

/** Digits after the seconds of a DateTime; -1 for a type that is none. */
export function timeDigits({ typeId }: DuckDBType): number {
  return digits.get(typeId) ?? -1
}

const digits: ReadonlyMap<DuckDBTypeId, number> = new Map([
  [DuckDBTypeId.TIMESTAMP_S, 0],
  [DuckDBTypeId.TIMESTAMP_MS, 3],
  [DuckDBTypeId.TIMESTAMP, 6],
  [DuckDBTypeId.TIMESTAMP_TZ, 6],
  [DuckDBTypeId.TIMESTAMP_NS, 9],
])

export function columnOf(name: string, type: DuckDBType, value: string): DuckColumn {
  return { name, type, value, fields: fieldsOf(type, value) }
}

/** Fields of a tuple with the SQL that reads them; none for other types. */
export function fieldsOf(type: DuckDBType, value: string): readonly DuckColumn[] {
  if (type.typeId !== DuckDBTypeId.STRUCT) return []
  const { entryNames, entryTypes } = type as DuckDBStructType
  return entryTypes.map((entry, at) => {
    const name = entryNames[at]!
    const key = name === '' ? at + 1 : duckdbString(name)
    return columnOf(name, entry, `struct_extract(${value}, ${key})`)
  })
}

/** The element type of a list; null for other types. */
export function elementOf(type: DuckDBType): DuckDBType | null {
  if (type.typeId !== DuckDBTypeId.LIST && type.typeId !== DuckDBTypeId.ARRAY) return null
  return (type as DuckDBListType | DuckDBArrayType).valueType
}

/** ClickHouse's name of a type. */
export function typeName(type: DuckDBType): string {
  const element = elementOf(type)
  if (element !== null) return `Array(${typeName(element)})`
  switch (type.typeId) {
    case DuckDBTypeId.DECIMAL: {
      const { width, scale } = type as DuckDBDecimalType
      return `Decimal(${width}, ${scale})`
    }
    case DuckDBTypeId.MAP: {
      const { keyType, valueType } = type as DuckDBMapType
      return `Map(${typeName(keyType)}, ${typeName(valueType)})`
    }
    case DuckDBTypeId.STRUCT: {
      const fields = fieldsOf(type, '').map(({ name, type: entry }) => {
        const shown = name === '' || /^[a-z_]\w*$/i.test(name) ? name : clickhouseName(name)
        return `${shown} ${typeName(entry)}`.trim()
      })
      return `Tuple(${fields.join(', ')})`
    }
    default:
      return typeNames.get(DuckDBTypeId[type.typeId]) ?? 'String'
  }
}

/** Names and types of the result columns; errors of the statement itself are thrown here. */
export async function planned(
  connection: DuckDBConnection,
  sql: string,
  named: readonly { readonly name: string; readonly type: string }[],
): Promise<readonly DuckColumn[]> {
  const prepared = await connection.prepare(sql)
  try {
    return Array.from({ length: prepared.columnCount }, (_, at) => ({
      ...columnOf(named[at]?.name ?? prepared.columnName(at), prepared.columnType(at), `q.c${at}`),
      ...shownType(named[at]?.type),
    }))
  } finally {
    prepared.destroySync()
  }
}

/** The type that the printer knows, with Nullable, which DuckDB's types have not. */
function shownType(type: string | undefined): { shown?: string } {
  return type === undefined || type.includes(unknown) ? {} : { shown: type }
}

/** ClickHouse's name and type of each column. */
export function namesOf(columns: readonly DuckColumn[]) {
  return columns.map(({ name, type, shown }) => ({ name, type: shown ?? typeName(type) }))
}
