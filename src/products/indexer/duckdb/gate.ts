// Validates a query: one read-only statement that uses only known tables and functions.
// Thread: main of a query process. The sandboxed process is the security boundary; this rejects
// most attacks before they reach it.
//
//   text -> DuckDB's dialect -> one statement? -> syntax tree: tables, functions, bounds -> planned
import type { DuckDBConnection } from '@duckdb/node-api'
import { type Checked, checked, fail } from '../exceptions.ts'
import { lex, wordOf } from '../sql/lexer.ts'
import { toDuckdb } from './dialect.ts'
import { rewrite } from './rewrite.ts'
import { checkTree, type TreeRules } from './syntax-tree.ts'

export interface Gated {
  /** The statement to run: a SELECT in the widest sense, or EXPLAIN of one. */
  readonly sql: string
  readonly isExplain: boolean
  /** Tables that the statement reads. */
  readonly tables: ReadonlySet<string>
}

export async function passGate(
  connection: DuckDBConnection,
  text: string,
  rules: TreeRules,
): Promise<Checked<Gated>> {
  const sql = withoutEnd(rewrite(toDuckdb(text)))
  const explained = withoutExplain(sql)
  const count = await countStatements(connection, sql)
  if (count === 0) return fail('SYNTAX_ERROR', 'the query is empty')
  if (count > 1 && !isPivot(sql)) return fail('SYNTAX_ERROR', 'one statement at a time')
  const found = await connection.runAndReadAll('SELECT json_serialize_sql($1::VARCHAR)', [
    explained ?? sql,
  ])
  const tree = JSON.parse(String(found.getRows()[0]![0])) as {
    error: boolean
    error_type?: string
    error_message?: string
  }
  if (tree.error) return refused(explained ?? sql, tree.error_type ?? '', tree.error_message ?? '')
  if (count < 0) return fail('SYNTAX_ERROR', 'the statement cannot be read')
  const tables = checkTree(tree, rules)
  if (!tables.ok) return tables
  return checked({ sql, isExplain: explained !== null, tables: tables.value })
}

/** -1 when it cannot be parsed; the reason is then in the tree. */
async function countStatements(connection: DuckDBConnection, sql: string): Promise<number> {
  try {
    return (await connection.extractStatements(sql)).count
  } catch {
    return -1
  }
}

/** Not a SELECT: it would change something, or DuckDB splits it into several statements. */
function refused(sql: string, type: string, message: string) {
  if (type === 'parser') return fail('SYNTAX_ERROR', message)
  if (isPivot(sql))
    return fail('NOT_IMPLEMENTED', 'PIVOT is not answered here: aggregate with countIf, sumIf')
  return fail('READONLY', 'only SELECT and EXPLAIN are answered: this database is read-only')
}

function isPivot(sql: string): boolean {
  return lex(sql, 'duckdb-native').some((token) => /^(UN)?PIVOT/.test(wordOf(sql, token)))
}

/** Strips trailing semicolons and comments, because statements are wrapped in other SQL. */
function withoutEnd(sql: string): string {
  const tokens = lex(sql, 'duckdb-native').filter(({ kind }) => kind !== 'comment')
  let last = tokens.length - 1
  while (last >= 0 && sql.slice(tokens[last]!.start, tokens[last]!.end) === ';') last -= 1
  return last < 0 ? '' : sql.slice(0, tokens[last]!.end)
}

/** The statement after EXPLAIN; null when there is no EXPLAIN. */
function withoutExplain(sql: string): string | null {
  const tokens = lex(sql, 'duckdb-native').filter(({ kind }) => kind !== 'comment')
  if (wordOf(sql, tokens[0]) !== 'EXPLAIN') return null
  const next = wordOf(sql, tokens[1]) === 'ANALYZE' ? tokens[2] : tokens[1]
  return next === undefined ? '' : sql.slice(next.start)
}
