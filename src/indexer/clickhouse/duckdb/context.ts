// What printing needs from outside an expression.

import type { Expr, Query } from '../sql/ast.ts'
import type { TypedValue } from '../sql/statement.ts'
import type { Relation, Scope } from './scope.ts'
import type { Typed } from './typing.ts'

/** The tables that a query may name. */
export interface Catalogue {
  /** '' is the database of names without one. `sql` is the table's name in DuckDB. */
  table(database: string, name: string): NamedTable | undefined
  /** For a hint. */
  namesOf(database: string): readonly string[]
}
export interface NamedTable {
  readonly database: string
  readonly sql: string
  /** ClickHouse types by name. */
  readonly columns: Readonly<Record<string, string>>
}

export interface Context {
  readonly catalogue: Catalogue
  readonly values: readonly TypedValue[]
  readonly hasJoinNulls: boolean
  readonly database: string
  print(expr: Expr, scope: Scope): Typed
  /** Prints a query inside another. */
  query(query: Query, scope: Scope): Relation
  /** Counts what is printed, and throws when a short query becomes too much. */
  spend(count?: number): void
  /** A number for a name that no customer uses. */
  number(): number
}
