// How a function of ClickHouse is written in DuckDB's SQL: the form of the tables' entries.

import type { Expr, Query } from '../sql/ast.ts'
import type { TypedValue } from '../sql/parameters.ts'
import { SqlProblem } from '../sql/parser.ts'
import type { Relation, Scope } from './scope.ts'
import { isNullable, itemType, nullable, type Typed, unknown } from './typing.ts'

/** A call with its printed arguments. */
export interface CallOf {
  readonly name: string
  readonly args: readonly Typed[]
  /** The parameters of an aggregate function, the first list in `f(params)(args)`; else empty. */
  readonly params: readonly Typed[]
  readonly nodes: readonly Expr[]
}

export type TypeRule = string | ((call: CallOf) => string)

/**
 * A text is only the result's type: the call is printed as `name(args)`, a macro or DuckDB's own.
 * The type `flag` is a UInt8 that DuckDB computes as BOOLEAN.
 */
export type Entry =
  | string
  | {
      readonly type?: TypeRule
      /**
       * `$1` and `$2` are arguments, `$*` all of them, `$p1` parameters; or a function, null for
       * arguments that the function does not take.
       */
      readonly sql?: string | ((call: CallOf) => string | null)
      /** The rule decides about Nullable; else a Nullable argument makes the result Nullable. */
      readonly nulls?: 'own'
    }

/** Writes a call; null for arguments that the function does not take. */
export type SqlRule = (call: CallOf) => string | null

export type Entries = Readonly<Record<string, Entry>>

/** How an aggregate function is written. */
export interface Aggregate {
  /** A template, or a function that chooses one: `$D` is DISTINCT, `$F` is FILTER and OVER. */
  readonly sql: string | ((call: CallOf) => string | null)
  readonly type: TypeRule
  /** Over no rows: the type's default, NaN, or what DuckDB returns (which is then not NULL). */
  readonly empty?: 'default' | 'nan'
  /** The result is cast to its type. */
  readonly isCast?: boolean
  /** NULL arguments do not make the result Nullable. */
  readonly nulls?: 'own'
  /** Parameters when none are given. */
  readonly level?: string
}

/** The type of an argument. */
export const same =
  (at: number) =>
  ({ args }: CallOf): string =>
    args[at]?.type ?? unknown
export const itemOf =
  (at: number) =>
  ({ args }: CallOf): string =>
    itemType(args[at]?.type ?? unknown)

export function resultType(entry: Entry, call: CallOf): string {
  const rule = typeof entry === 'string' ? entry : (entry.type ?? unknown)
  const type = typeof rule === 'string' ? (flags[rule]?.(call) ?? rule) : rule(call)
  const isOwn = typeof entry === 'object' && entry.nulls === 'own'
  return !isOwn && call.args.some((arg) => isNullable(arg.type)) ? nullable(type) : type
}

/** Types of conditions: of comparisons, and of logic, which has Bool where an argument is one. */
const flags: Readonly<Record<string, (call: CallOf) => string>> = {
  flag: () => 'UInt8',
  logic: ({ args }) => (args.some(({ type }) => type === 'Bool') ? 'Bool' : 'UInt8'),
}

export function isFlagEntry(entry: Entry): boolean {
  const type = typeof entry === 'string' ? entry : entry.type
  return typeof type === 'string' && Object.hasOwn(flags, type)
}

/**
 * The template with its arguments, in one pass: what they contain is never read as a template.
 * Null when it names one that is missing. `marks` are further texts, such as `$F`.
 */
export function filledTemplate(
  template: string,
  { args, params }: CallOf,
  marks: Readonly<Record<string, string>> = {},
): string | null {
  let isWhole = true
  const sql = template.replaceAll(
    /\$(?:(p?)(\d|\*)|([A-Z]))/g,
    (_, p = '', which = '', mark = '') => {
      if (mark !== '') return marks[mark] ?? ''
      const list = p === '' ? args : params
      if (which === '*') return list.map((one) => one.sql).join(', ')
      const found = list[Number(which) - 1]
      if (found === undefined) isWhole = false
      return found?.sql ?? ''
    },
  )
  return isWhole ? sql : null
}

export function notAnswered(what: string): SqlProblem {
  return new SqlProblem('NOT_IMPLEMENTED', `${what} is not answered here`)
}

// What printing needs from outside an expression.

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
  /** What a view reads, in ClickHouse's SQL; null for a table. */
  readonly view: string | null
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
