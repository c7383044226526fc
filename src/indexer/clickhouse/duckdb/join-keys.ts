// The condition of a join and its pairs of equal columns. Thread: main of a query process. Pure.
import type { Expr, Join } from '../sql/ast.ts'
import { SqlProblem } from '../sql/parser.ts'
import type { Context } from './context.ts'
import { Scope, type Source } from './scope.ts'
import { condition, type Typed, unknown } from './typing.ts'

export interface PrintedFrom {
  readonly sql: string
  readonly sources: readonly Source[]
  /** Columns of USING, once each. */
  readonly merged: ReadonlyMap<string, Typed>
}

/** The condition of a join, and its pairs of equal columns. */
export class JoinKeys {
  readonly sql: string
  readonly #using: readonly string[]
  readonly #pairs: readonly (readonly [left: string, right: string])[]

  constructor(join: Join, left: PrintedFrom, right: PrintedFrom, scope: Scope, context: Context) {
    this.#using = join.using ?? []
    const leftScope = new Scope(scope, left)
    const rightScope = new Scope(scope, { sources: right.sources })
    if (join.using !== null) {
      const pairs = join.using.map(
        (name) =>
          [
            context.print(columnOf(name, join.at), leftScope).sql,
            context.print(columnOf(name, join.at), rightScope).sql,
          ] as const,
      )
      this.#pairs = pairs
      const last = pairs.length - 1
      const sign = (at: number) => (join.strictness === 'ASOF' && at === last ? '>=' : '=')
      this.sql = pairs.map(([a, b], at) => `(${a} ${sign(at)} ${b})`).join(' AND ')
      return
    }
    const both = new Scope(scope, {
      sources: [...left.sources, ...right.sources],
      merged: left.merged,
    })
    this.sql = condition(context.print(join.on!, both))
    const isSimple = !['ANY', 'SEMI'].includes(join.strictness)
    if (isSimple) {
      this.#pairs = []
      return
    }
    const isOf = (expr: Expr, one: Scope): string | null => {
      try {
        return context.print(expr, one).sql
      } catch (thrown) {
        if (thrown instanceof SqlProblem) return null
        throw thrown
      }
    }
    this.#pairs = conjuncts(join.on!).flatMap((one) => {
      if (one.kind !== 'call' || one.name !== 'equals') return []
      const [a, b] = one.args as readonly [Expr, Expr]
      const direct = [isOf(a, leftScope), isOf(b, rightScope)] as const
      const swapped = [isOf(b, leftScope), isOf(a, rightScope)] as const
      // An unqualified name of both sides is the left one.
      const found = direct[0] !== null && direct[1] !== null ? direct : swapped
      return found[0] !== null && found[1] !== null ? [[found[0], found[1]] as const] : []
    })
    if (this.#pairs.length !== conjuncts(join.on!).length)
      throw new SqlProblem(
        'NOT_IMPLEMENTED',
        `${join.strictness} JOIN is answered for equalities in ON`,
      )
  }

  /** One row for each key of that side. */
  distinct({ sql, sources }: PrintedFrom, side: 'left' | 'right'): string {
    if (sources.length !== 1)
      throw new SqlProblem('NOT_IMPLEMENTED', 'this join of several tables is not answered here')
    const keys = this.#pairs.map((pair) => pair[side === 'left' ? 0 : 1])
    const alias =
      /AS ("(?:[^"]|"")*")$/.exec(sql)?.[1] ?? /AS ("(?:[^"]|"")*")\([^()]*\)$/.exec(sql)?.[1]
    if (alias === undefined)
      throw new SqlProblem('NOT_IMPLEMENTED', 'this join is not answered here')
    return `(SELECT DISTINCT ON (${keys.join(', ')}) * FROM ${sql}) AS ${alias}`
  }

  /** What the names of USING are: of the side that always has a row, or of either. */
  merged(sources: readonly Source[], leftCount: number): readonly (readonly [string, Typed])[] {
    return this.#using.map((name, at) => {
      const column = (from: readonly Source[]) =>
        from.flatMap((one) => one.columns).find((one) => one.name === name)
      const [left, right] = this.#pairs[at]!
      const type = column(sources.slice(0, leftCount))?.type ?? column(sources)?.type ?? unknown
      return [name, { sql: `coalesce(${left}, ${right})`, type }] as const
    })
  }
}

function columnOf(name: string, at: number): Expr {
  return { kind: 'column', at, path: [name] }
}

function conjuncts(expr: Expr): readonly Expr[] {
  return expr.kind === 'call' && expr.name === 'and' ? expr.args.flatMap(conjuncts) : [expr]
}
