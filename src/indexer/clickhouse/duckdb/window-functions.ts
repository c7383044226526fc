// Window functions that are no aggregates, in DuckDB's SQL.
import type { Window } from '../sql/ast.ts'
import { SqlProblem } from '../sql/parser.ts'
import type { CallOf } from './entry.ts'
import { defaultSql, filled, type Typed, unknown } from './typing.ts'

interface WindowCall extends CallOf {
  /** What follows OVER. */
  readonly over: string
}
type Write = (call: WindowCall, window: Window | string) => Typed

const ranking =
  (type: string, sqlType: string): Write =>
  ({ name, args, over }) => {
    const inner = args.map((one) => one.sql).join(', ')
    return { sql: `CAST(${name}(${inner}) OVER ${over} AS ${sqlType})`, type }
  }

/** `lag(x, offset, default)`: outside the rows ClickHouse has the type's default. */
const shifted =
  (name: 'lag' | 'lead'): Write =>
  ({ args, over }) => {
    const [x, offset, other] = args
    if (x === undefined)
      throw new SqlProblem('NUMBER_OF_ARGUMENTS_DOESNT_MATCH', `${name} takes an argument`)
    const { type } = x
    const fallback = other?.sql ?? defaultSql(type)
    const parts = [x.sql, offset?.sql ?? '1', ...(fallback === null ? [] : [fallback])]
    const value = { sql: `${name}(${parts.join(', ')}) OVER ${over}`, type }
    return fallback === null ? filled(value) : value
  }

/** DuckDB's functions ignore the frame: right only where the frame reaches to that end. */
const inFrame =
  (name: 'lag' | 'lead'): Write =>
  (call, window) => {
    const frame = typeof window === 'string' ? null : window.frame
    const edge = name === 'lag' ? frame?.begin : frame?.end
    const side = name === 'lag' ? 'PRECEDING' : 'FOLLOWING'
    const isWhole = edge?.side === side && edge.count === null
    const isDefault = name === 'lag' && frame === null && typeof window !== 'string'
    if (!isWhole && !isDefault)
      throw new SqlProblem(
        'NOT_IMPLEMENTED',
        `${call.name} is answered for a frame that is UNBOUNDED ${side}, written in OVER (…)`,
      )
    return shifted(name)(call, window)
  }

const within: Write = ({ name, args, over }) =>
  filled({
    sql: `${name}(${args.map((one) => one.sql).join(', ')}) OVER ${over}`,
    type: args[0]?.type ?? unknown,
  })

export const windowFunctions: Readonly<Record<string, Write>> = {
  row_number: ranking('UInt64', 'UBIGINT'),
  rank: ranking('UInt64', 'UBIGINT'),
  dense_rank: ranking('UInt64', 'UBIGINT'),
  ntile: ranking('UInt64', 'UBIGINT'),
  percent_rank: ranking('Float64', 'DOUBLE'),
  cume_dist: ranking('Float64', 'DOUBLE'),
  lag: shifted('lag'),
  lead: shifted('lead'),
  laginframe: inFrame('lag'),
  leadinframe: inFrame('lead'),
  first_value: within,
  last_value: within,
  nth_value: within,
}
