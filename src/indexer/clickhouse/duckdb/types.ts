// ClickHouse type names and the DuckDB types that they are stored and cast as. Thread: any; data.

export const sqlTypes: Readonly<Record<string, string>> = {
  Bool: 'BOOLEAN',
  UInt8: 'UTINYINT',
  UInt16: 'USMALLINT',
  UInt32: 'UINTEGER',
  UInt64: 'UBIGINT',
  UInt128: 'UHUGEINT',
  Int8: 'TINYINT',
  Int16: 'SMALLINT',
  Int32: 'INTEGER',
  Int64: 'BIGINT',
  Int128: 'HUGEINT',
  Float32: 'FLOAT',
  Float64: 'DOUBLE',
  String: 'VARCHAR',
  'Array(String)': 'VARCHAR[]',
  UUID: 'UUID',
  Date: 'DATE',
  DateTime: 'TIMESTAMP_S',
  'DateTime64(3)': 'TIMESTAMP_MS',
  'DateTime64(6)': 'TIMESTAMP',
  'DateTime64(9)': 'TIMESTAMP_NS',
}

/** ClickHouse names by DuckDB type. */
export const typeNames: ReadonlyMap<string, string> = new Map([
  ...Object.entries(sqlTypes).map(([name, sql]) => [sql, name] as const),
  ['TIMESTAMP_TZ', 'DateTime64(6)'],
  ['SQLNULL', 'Nullable(Nothing)'],
])

/** The DuckDB type of a time with that many fractional digits. */
export function timeType(digits: number): string {
  if (digits === 0) return 'TIMESTAMP_S'
  return sqlTypes[`DateTime64(${Math.ceil(digits / 3) * 3})`]!
}
