// A statement and the values of its parameters.

/** The value of a `{name:Type}` parameter, checked against its type. */
export interface TypedValue {
  /** ClickHouse type name: `UInt64`, `Array(String)`, `Nullable(DateTime64(3))`. */
  readonly type: string
  readonly value: string | readonly TypedValue[] | null
  /** The braces as written, for an engine that parses the statement itself. */
  readonly source?: string
}

/** One statement without FORMAT and SETTINGS; `texts` has one item more than `values`. */
export interface Statement {
  readonly texts: readonly string[]
  readonly values: readonly TypedValue[]
}
