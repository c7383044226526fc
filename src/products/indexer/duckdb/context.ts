// What printing needs from outside an expression. Thread: any (types).
import type { TypedValue } from '../engine.ts'
import type { Expr, Query } from '../sql/ast.ts'
import type { Relation, Scope } from './scope.ts'
import type { Typed } from './typing.ts'

export interface Context {
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
