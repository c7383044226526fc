// Validates a query: one read-only statement that uses only known tables and functions.
// Thread: main of a query process. The sandboxed process is the security boundary; this rejects
// most attacks before they reach it.
//
//   ClickHouse's SQL -> parsed, printed as DuckDB's -> DuckDB's syntax tree of it: tables,
//   functions, bounds -> planned
import type { DuckDBConnection } from '@duckdb/node-api'
import { type Checked, checked, fail } from '../exceptions.ts'
import { scopeText } from '../sql/explain-syntax.ts'
import { isSymbol, lex, wordOf } from '../sql/lexer.ts'
import type { Statement } from '../sql/parameters.ts'
import { statementText } from './literal.ts'
import { type Translated, type TranslateOptions, translate } from './print-select.ts'
import { checkTree, type TreeRules } from './syntax-tree.ts'

export interface Gated extends Translated {
  /** Tables that the statement reads. */
  readonly tables: ReadonlySet<string>
  /** Time to wait before it runs. */
  readonly sleepMs: number
}

export async function passGate(
  connection: DuckDBConnection,
  statement: Statement,
  rules: TreeRules,
  options: Omit<TranslateOptions, 'values'>,
): Promise<Checked<Gated>> {
  const { values } = statement
  const translated = translate(statementText(statement), { ...options, values })
  if (!translated.ok) return withScope(translated, statementText(statement))
  const { sql, totals } = translated.value
  const tables = await tablesOf(connection, sql, rules)
  if (!tables.ok) return tables
  if (totals !== '') {
    const others = await tablesOf(connection, totals, rules)
    if (!others.ok) return others
  }
  const sleep = sleepOf(statementText(statement))
  if (!sleep.ok) return sleep
  return checked({ ...translated.value, tables: tables.value, sleepMs: sleep.value })
}

/** The tables that one printed SELECT reads; fails when it may not run. */
async function tablesOf(
  connection: DuckDBConnection,
  sql: string,
  rules: TreeRules,
): Promise<Checked<ReadonlySet<string>>> {
  const found = await connection.runAndReadAll('SELECT json_serialize_sql($1::VARCHAR)', [sql])
  const tree = JSON.parse(String(found.getRows()[0]![0])) as {
    error: boolean
    error_message?: string
    statements?: readonly unknown[]
  }
  // The printer writes one SELECT; anything else is a mistake of ours, and does not run.
  if (tree.error || tree.statements?.length !== 1)
    return fail('NOT_IMPLEMENTED', `the query cannot be run here: ${tree.error_message ?? ''}`)
  return checkTree(tree, rules)
}

/** An unknown name is shown with its query, as ClickHouse does. */
function withScope(found: ReturnType<typeof fail>, text: string): ReturnType<typeof fail> {
  const message = found.error.message.replace(
    /^Unknown (table )?expression identifier (['`])(?:(?!\2).)*\2/,
    (head) => `${head} in scope ${scopeText(text)}`,
  )
  return { ok: false, error: { ...found.error, message } }
}

// Reads how long `sleep` and `sleepEachRow` of a query wait. Pure.
// DuckDB has no such function: the runner waits before it runs the query, once for each call.

/** As in ClickHouse. */
const secondsMax = 3

/** Milliseconds. */
export function sleepOf(text: string): Checked<number> {
  if (!/sleep/i.test(text)) return checked(0)
  const tokens = lex(text).filter(({ kind }) => kind !== 'comment')
  let seconds = 0
  for (const [at, token] of tokens.entries()) {
    const name = wordOf(text, token)
    if (name !== 'SLEEP' && name !== 'SLEEPEACHROW') continue
    if (!isSymbol(text, tokens[at + 1], '(')) continue
    const argument = tokens[at + 2]
    if (argument?.kind !== 'number' || !isSymbol(text, tokens[at + 3], ')'))
      return fail('BAD_ARGUMENTS', 'The argument of function sleep must be a constant number')
    const wanted = Number(text.slice(argument.start, argument.end))
    if (wanted > secondsMax)
      return fail(
        'TOO_SLOW',
        `The maximum sleep time is ${secondsMax} seconds. Requested: ${wanted}`,
      )
    seconds += wanted
  }
  return checked(Math.ceil(seconds * 1000))
}
