// Schemas of the databases whose names DuckDB uses itself. Thread: any. Data only.

export const schemaOf: Readonly<Record<string, string>> = {
  system: 'system_',
  information_schema: 'information_schema_',
  default: 'chain',
}
