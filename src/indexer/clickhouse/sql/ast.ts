// The syntax tree of a ClickHouse query.
// Operators are calls, as in ClickHouse: `a + 1` is plus(a, 1), `x IN (1)` is in(x, 1), CASE is
// multiIf, `x::T` is CAST(x, 'T'), INTERVAL 1 HOUR is toIntervalHour(1).

export type Expr = Literal | Column | Star | Call | Lambda | Subquery | Parameter | Alias

interface Node {
  /** Offset in the text. */
  readonly at: number
}

export interface Literal extends Node {
  readonly kind: 'literal'
  /** ClickHouse type: `UInt8`, `Float64`, `String`, `Bool`, `Nullable(Nothing)`. */
  readonly type: string
  /** The value: a number as written, or the content of a string. */
  readonly text: string
}

export interface Column extends Node {
  readonly kind: 'column'
  /** `a`, `t.a`, `db.t.a`. */
  readonly path: readonly string[]
}

/** `*`, `t.*`, `COLUMNS('re')`, with EXCEPT and REPLACE. */
export interface Star extends Node {
  readonly kind: 'star'
  readonly of: readonly string[]
  readonly pattern: string | null
  readonly except: readonly string[]
  readonly replace: readonly Alias[]
}

export interface Call extends Node {
  readonly kind: 'call'
  readonly name: string
  readonly args: readonly Expr[]
  /** `quantile(0.9)(x)` has one; null without parentheses. */
  readonly params: readonly Expr[] | null
  readonly isDistinct: boolean
  readonly filter: Expr | null
  readonly over: Window | string | null
  /** Levels of calls below and including this one. */
  readonly depth: number
}

export interface Lambda extends Node {
  readonly kind: 'lambda'
  readonly names: readonly string[]
  readonly body: Expr
}

export interface Subquery extends Node {
  readonly kind: 'subquery'
  /** Counts the subqueries of the text: a part of their names. */
  readonly number: number
  readonly query: Query
}

/** `{name:Type}`: the value of that index. */
export interface Parameter extends Node {
  readonly kind: 'parameter'
  readonly index: number
}

export interface Alias extends Node {
  readonly kind: 'alias'
  readonly of: Expr
  readonly name: string
}

export interface Order {
  readonly by: Expr
  readonly isDescending: boolean
  /** Where NULL and NaN are placed; null when not written. */
  readonly nulls: 'FIRST' | 'LAST' | null
}

export interface Window {
  readonly base: string | null
  readonly partition: readonly Expr[]
  readonly order: readonly Order[]
  readonly frame: Frame | null
}

export interface Frame {
  readonly unit: 'ROWS' | 'RANGE' | 'GROUPS'
  readonly begin: FrameBound
  readonly end: FrameBound | null
}

export interface FrameBound {
  readonly side: 'PRECEDING' | 'FOLLOWING' | 'CURRENT ROW'
  /** Null: unbounded, or the current row. */
  readonly count: Expr | null
}

export interface Query {
  readonly with: readonly With[]
  readonly body: Body
}

export type Body = Select | SetOperation

export interface SetOperation {
  readonly kind: 'set'
  /** `UNION ALL`, `UNION DISTINCT`, `INTERSECT`, `INTERSECT ALL`, `EXCEPT`, `EXCEPT ALL`. */
  readonly operator: string
  readonly left: Query
  readonly right: Query
}

export interface With {
  readonly name: string
  /** A subquery in FROM (`name AS (SELECT …)`), or an expression (`expr AS name`). */
  readonly of: Query | Expr
  readonly isRecursive: boolean
}

export interface Select extends Node {
  readonly kind: 'select'
  readonly isDistinct: boolean
  readonly distinctOn: readonly Expr[]
  readonly items: readonly Expr[]
  readonly from: From | null
  readonly prewhere: Expr | null
  readonly where: Expr | null
  readonly group: Group | null
  readonly having: Expr | null
  readonly windows: readonly { readonly name: string; readonly window: Window }[]
  readonly qualify: Expr | null
  readonly order: readonly Order[] | 'ALL'
  readonly limitBy: LimitBy | null
  readonly limit: Limit | null
}

export interface Group {
  readonly items: readonly Expr[] | 'ALL'
  readonly sets: readonly (readonly Expr[])[] | null
  readonly modifier: 'ROLLUP' | 'CUBE' | null
  readonly hasTotals: boolean
  /** Of WITH TOTALS only the row of totals. */
  readonly isTotals?: boolean
}

export interface LimitBy {
  readonly count: Expr
  readonly offset: Expr | null
  readonly by: readonly Expr[]
}

export interface Limit {
  readonly count: Expr | null
  readonly offset: Expr | null
  readonly hasTies: boolean
}

export type From = TableRef | Derived | TableFunction | Join | ArrayJoin

export interface TableRef extends Node {
  readonly kind: 'table'
  readonly path: readonly (string | Parameter)[]
  readonly alias: string | null
}

export interface Derived extends Node {
  readonly kind: 'derived'
  readonly query: Query
  readonly alias: string | null
}

export interface TableFunction extends Node {
  readonly kind: 'function'
  readonly name: string
  readonly args: readonly Expr[]
  readonly alias: string | null
  /** `t(a, b)`: names of its columns. */
  readonly columns: readonly string[]
}

export interface Join extends Node {
  readonly kind: 'join'
  readonly left: From
  readonly right: From
  readonly side: 'INNER' | 'LEFT' | 'RIGHT' | 'FULL' | 'CROSS'
  readonly strictness: 'ALL' | 'ANY' | 'SEMI' | 'ANTI' | 'ASOF'
  readonly on: Expr | null
  readonly using: readonly string[] | null
}

export interface ArrayJoin extends Node {
  readonly kind: 'array-join'
  readonly of: From
  readonly isLeft: boolean
  readonly items: readonly Expr[]
}

export interface Statement {
  readonly query: Query
  readonly explain: 'plan' | 'analyze' | 'syntax' | null
}
