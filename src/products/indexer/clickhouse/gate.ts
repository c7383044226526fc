// Decides what of a customer's query a ClickHouse server may see, and rewrites the names that mean
// something else for each customer. Thread: main (pure).
//
//   FROM usage            FROM (SELECT at, … FROM chain._usage FINAL WHERE subscription = 'me')
//   FROM system.tables    FROM (SELECT … ) over the catalogue
//   FROM transactions     FROM chain._transactions AS transactions FINAL, or the view of it
//   FROM anything else    refused, unless the query itself gave that name
//
// It reads tokens, not a tree: wherever a table can stand, only names of the catalogue, names the
// query made, subqueries and a few harmless functions may. The walker knows too many such places
// rather than too few.
import { systemRows, visibleTables } from '../catalogue.ts'
import { type Checked, checked, type ExceptionName, fail } from '../exceptions.ts'
import { lex, symbolOf, type Token, wordOf } from '../sql/lexer.ts'
import { type TableName, tables } from '../tables.ts'
import { forbiddenFunctions, forbiddenPrefixes, harmlessTableFunctions } from './forbidden.ts'
import { quoted } from './literals.ts'
import { isShownAsStored, storedName, visibleSql } from './schema.ts'
import type { ServerFacts } from './server-facts.ts'
import { tablePlaces } from './table-places.ts'

export interface Caller {
  readonly subscription: string
  readonly facts: ServerFacts
}

/** The text to send, or what is wrong with the query. */
export function admit(text: string, caller: Caller): Checked<string> {
  const tokens = lex(text, 'clickhouse').filter(({ kind }) => kind !== 'comment')
  const problem = wordProblem(text, tokens) ?? functionProblem(text, tokens)
  if (problem !== null) return fail(...problem)
  const own = ownNames(text, tokens)
  const edits: Edit[] = []
  for (const { at, isSet } of tablePlaces(text, tokens)) {
    const edit = tableAt({ text, tokens, at, isSet, own, caller })
    if (!edit.ok) return edit
    edits.push(...edit.value)
  }
  return checked(applied(text, edits))
}

interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}
type Problem = readonly [ExceptionName, string]

const everybodysUsage = '_usage'
const beginnings = new Set(['SELECT', 'WITH', 'FROM', 'EXPLAIN', 'DESCRIBE', 'DESC'])

function wordProblem(text: string, tokens: readonly Token[]): Problem | null {
  const first = tokens.find((token) => symbolOf(text, token) !== '(')
  if (!beginnings.has(wordOf(text, first)))
    return ['SYNTAX_ERROR', 'a query begins with SELECT or WITH']
  for (const [at, token] of tokens.entries()) {
    const written = text.slice(token.start, token.end)
    // Newer servers know other quotation marks; a name has no need of them.
    const isPlain = token.kind === 'string' || /^[\x20-\x7e]*$/.test(written)
    if (!isPlain || token.kind === 'broken')
      return ['SYNTAX_ERROR', 'names are written in ASCII, and every quote is closed']
    if (token.kind === 'quoted' && written.includes('\\'))
      return ['SYNTAX_ERROR', 'a quoted name has no backslash']
    if (written === ';') return ['SYNTAX_ERROR', 'one statement at a time']
    const word = wordOf(text, token)
    // No table here can be sampled, and its OFFSET would hide a table behind the comma.
    if (word === 'SAMPLE') return ['NOT_IMPLEMENTED', 'SAMPLE is not served here']
    // Everybody's rows: wherever the name stands, nobody means well by it.
    if (nameOf(text, token) === everybodysUsage)
      return ['UNKNOWN_TABLE', `table chain.${everybodysUsage} does not exist`]
    if (word === 'INTO' && wordOf(text, tokens[at + 1]) === 'OUTFILE')
      return ['READONLY', 'INTO OUTFILE is not served here']
    if (word === 'SETTINGS' && symbolOf(text, tokens[at + 2]) === '=')
      return ['READONLY', 'SETTINGS inside a query are not served here']
  }
  return null
}

function functionProblem(text: string, tokens: readonly Token[]): Problem | null {
  for (const [at, token] of tokens.entries()) {
    if (symbolOf(text, tokens[at + 1]) !== '(') continue
    const name = nameOf(text, token).toLowerCase()
    const isForbidden =
      forbiddenFunctions.has(name) ||
      forbiddenPrefixes.some((prefix) => name.startsWith(prefix)) ||
      // `in(x, t)` is a way to say `x IN t` that hides the table.
      (name === 'in' && !(token.kind === 'word' && isBehindValue(text, tokens, at)))
    if (isForbidden) return ['READONLY', `function ${name} is not served here`]
  }
  return null
}

const beforeValues = new Set(
  (
    'SELECT DISTINCT WHERE PREWHERE AND OR XOR NOT HAVING QUALIFY ON USING BY WHEN THEN ELSE ' +
    'CASE LIKE ILIKE BETWEEN IS ANY ALL WITH FROM LIMIT OFFSET INTERVAL IN AS TOP DIV MOD REGEXP ' +
    'RETURNING FILTER OVER JOIN UNION EXCEPT INTERSECT GLOBAL IF TO STEP EXISTS'
  ).split(' '),
)

/** Whether something stands before that IN can look for. */
function isBehindValue(text: string, tokens: readonly Token[], at: number): boolean {
  let before = at - 1
  while (['NOT', 'GLOBAL'].includes(wordOf(text, tokens[before]))) before--
  const token = tokens[before]
  if (token === undefined) return false
  if (token.kind === 'symbol') return [')', ']', '}'].includes(symbolOf(text, token))
  return !beforeValues.has(wordOf(text, token))
}

/** A word or a quoted name without its quotes; '' for any other token. */
function nameOf(text: string, token: Token | undefined): string {
  if (token?.kind === 'word') return text.slice(token.start, token.end)
  return token?.kind === 'quoted' ? text.slice(token.start + 1, token.end - 1) : ''
}

/** Names that the query gives: `WITH x AS (…)`, `… AS x`. */
function ownNames(text: string, tokens: readonly Token[]): ReadonlySet<string> {
  const names = new Set<string>()
  for (const [at, token] of tokens.entries()) {
    if (wordOf(text, token) !== 'AS') continue
    names.add(nameOf(text, tokens[at + 1]))
    if (symbolOf(text, tokens[at + 1]) === '(') names.add(nameOf(text, tokens[at - 1]))
  }
  names.delete('')
  return names
}

interface Place {
  readonly text: string
  readonly tokens: readonly Token[]
  readonly at: number
  /** Behind IN, where no alias can stand. */
  readonly isSet: boolean
  readonly own: ReadonlySet<string>
  readonly caller: Caller
}

function tableAt(place: Place): Checked<readonly Edit[]> {
  const { text, tokens, at, isSet, own, caller } = place
  const first = nameOf(text, tokens[at])
  if (first === '') return fail('SYNTAX_ERROR', 'a table or a subquery is expected in FROM')
  const isDotted = symbolOf(text, tokens[at + 1]) === '.'
  const last = isDotted ? at + 2 : at
  const name = isDotted ? nameOf(text, tokens[last]) : first
  const database = isDotted ? first : 'chain'
  const isCall = symbolOf(text, tokens[last + 1]) === '('
  if (isCall && !isDotted) {
    if (isSet || harmlessTableFunctions.has(name.toLowerCase())) return checked([])
    return fail('READONLY', `table function ${name.slice(0, 40)} is not served here`)
  }
  const isOther = name === '' || isCall || symbolOf(text, tokens[last + 1]) === '.'
  const known = isOther ? undefined : sourceOf(database, name, caller)
  if (known === undefined) {
    // A name the query gave itself; ours with an underscore can never be meant.
    if (!isDotted && !isOther && own.has(name) && !name.startsWith('_')) return checked([])
    return fail('UNKNOWN_TABLE', `table ${`${database}.${name}`.slice(0, 80)} does not exist`)
  }
  const { alias, end } = behindTable(text, tokens, last)
  const written = isSet ? known : sourceText({ ...place, name, known, alias })
  return checked([{ start: tokens[at]!.start, end: tokens[end]!.end, text: written }])
}

/**
 * Behind FROM the stored table itself, where an old server finds its index; behind a view with
 * FINAL it would not.
 */
function sourceText(
  source: Place & { readonly name: string; readonly known: string; readonly alias: string },
): string {
  const { text, tokens, at, caller, name, known, alias } = source
  const isFirst = wordOf(text, tokens[at - 1]) === 'FROM'
  const isView = known === `chain.${name}`
  if (isView && isFirst && isShownAsStored(name as TableName, caller.facts))
    return `${storedName(name as TableName)} AS ${alias || name} FINAL`
  return isView && alias === '' ? known : `${known} AS ${alias || name}`
}

/** What belongs to the table: `FINAL` and an alias, in either order. */
function behindTable(
  text: string,
  tokens: readonly Token[],
  last: number,
): { readonly alias: string; readonly end: number } {
  const isFinal = (at: number) => wordOf(text, tokens[at]) === 'FINAL'
  let end = isFinal(last + 1) ? last + 1 : last
  const named = wordOf(text, tokens[end + 1]) === 'AS' ? end + 2 : end + 1
  const token = tokens[named]
  const isName = token?.kind === 'quoted' || (token?.kind === 'word' && !isClause(text, token))
  const alias = isName ? text.slice(token.start, token.end) : ''
  if (isName) end = named
  return { alias, end: isFinal(end + 1) ? end + 1 : end }
}

/** What stands for a table; undefined when there is none of that name. */
function sourceOf(database: string, name: string, caller: Caller): string | undefined {
  const base = database === 'default' ? 'chain' : database
  const table = visibleTables.find((one) => one.database === base && one.name === name)
  if (table === undefined) return undefined
  if (table.database === 'system') return catalogueSql(name)
  if (name !== 'usage') return `chain.${name}`
  const columns = Object.keys(tables.usage.columns).filter((column) => column !== 'subscription')
  const owner = quoted(caller.subscription)
  return `(${visibleSql('usage', caller.facts, columns)} WHERE subscription = ${owner})`
}

function catalogueSql(name: string): string {
  const rows = systemRows('View')[name] ?? []
  const table = visibleTables.find((one) => one.database === 'system' && one.name === name)
  const columns = Object.entries(table?.columns ?? {})
  const shown = columns.map(([column, type], index) => {
    const cell = columns.length === 1 ? 'row' : `row.${index + 1}`
    return `CAST(${cell} AS ${type}) AS \`${column}\``
  })
  const tuples = rows.map((row) => {
    const cells = Object.values(row).map((cell) =>
      typeof cell === 'number' ? String(cell) : quoted(cell),
    )
    return `(${cells.join(', ')})`
  })
  return `(SELECT ${shown.join(', ')} FROM (SELECT arrayJoin([${tuples.join(', ')}]) AS row))`
}

const afterTable = new Set(
  (
    'FINAL SAMPLE WHERE PREWHERE JOIN ANY ALL ASOF INNER LEFT RIGHT FULL CROSS OUTER GLOBAL ' +
    'LOCAL SEMI ANTI ARRAY PASTE ON USING GROUP ORDER HAVING LIMIT OFFSET FETCH UNION ' +
    'INTERSECT EXCEPT WINDOW QUALIFY SELECT FORMAT SETTINGS INTO'
  ).split(' '),
)

function isClause(text: string, token: Token): boolean {
  return afterTable.has(wordOf(text, token))
}

function applied(text: string, edits: readonly Edit[]): string {
  let result = ''
  let from = 0
  for (const edit of [...edits].sort((a, b) => a.start - b.start)) {
    result += text.slice(from, edit.start) + edit.text
    from = edit.end
  }
  return result + text.slice(from)
}
