// The gate before the engine: one statement, that only reads, of known tables and functions.
// Thread: main of a query process. The wall is the process itself; this spares it most attacks.
//
//   text -> DuckDB's writing -> one statement? -> its tree: tables, functions, bounds -> planned
import type { DuckDBConnection } from '@duckdb/node-api'
import { type Checked, checked, fail } from '../exceptions.ts'
import { lex, wordOf } from '../sql/lexer.ts'
import { toDuckdb } from './dialect.ts'
import { rewrite } from './rewrite.ts'
import { checkTree, type TreeRules } from './syntax-tree.ts'

export interface Gated {
  /** What may run: a SELECT in the widest sense, or EXPLAIN of one. */
  readonly sql: string
  readonly isExplain: boolean
  /** Tables that it reads. */
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

/** -1 when it cannot be parsed; the tree then tells why. */
async function countStatements(connection: DuckDBConnection, sql: string): Promise<number> {
  try {
    return (await connection.extractStatements(sql)).count
  } catch {
    return -1
  }
}

/** Not a SELECT: either it would change something, or DuckDB makes several statements of it. */
function refused(sql: string, type: string, message: string) {
  if (type === 'parser') return fail('SYNTAX_ERROR', message)
  if (isPivot(sql))
    return fail('NOT_IMPLEMENTED', 'PIVOT is not answered here: aggregate with countIf, sumIf')
  return fail('READONLY', 'only SELECT and EXPLAIN are answered: this database is read-only')
}

function isPivot(sql: string): boolean {
  return lex(sql, 'duckdb-native').some((token) => /^(UN)?PIVOT/.test(wordOf(sql, token)))
}

/** Semicolons and comments at the end would stand in the way of what is put around a statement. */
function withoutEnd(sql: string): string {
  const tokens = lex(sql, 'duckdb-native').filter(({ kind }) => kind !== 'comment')
  let last = tokens.length - 1
  while (last >= 0 && sql.slice(tokens[last]!.start, tokens[last]!.end) === ';') last -= 1
  return last < 0 ? '' : sql.slice(0, tokens[last]!.end)
}

/** The statement behind EXPLAIN; null when it is none. */
function withoutExplain(sql: string): string | null {
  const tokens = lex(sql, 'duckdb-native').filter(({ kind }) => kind !== 'comment')
  if (wordOf(sql, tokens[0]) !== 'EXPLAIN') return null
  const next = wordOf(sql, tokens[1]) === 'ANALYZE' ? tokens[2] : tokens[1]
  return next === undefined ? '' : sql.slice(next.start)
}
