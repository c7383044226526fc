// Validates a customer's query for a ClickHouse server, and rewrites table names whose rows depend
// on the customer.
//
//   FROM usage            FROM (SELECT at, … FROM chain._usage FINAL WHERE subscription = 'me')
//   FROM system.tables    FROM (SELECT … ) over the catalogue
//   FROM transactions     FROM chain._transactions AS transactions FINAL, or the view of it
//   FROM fees_by_payer    FROM (SELECT … ) of the view, whose tables are rewritten as well
//   FROM t                unchanged where WITH t AS (…) is in scope
//   FROM anything else    refused
//
// It reads tokens, not a tree: at every position of a table only names of the catalogue, common
// tables of WITH, subqueries and a few harmless functions are allowed. An ambiguous position
// counts as one of a table. The text for the server is rebuilt by rebuild.ts.
import type { TableSizes, VisibleTable } from '../catalogue.ts'
import { databaseOf, systemRows, visibleTable } from '../catalogue.ts'
import { type Checked, checked, type ExceptionName, fail } from '../clickhouse/exceptions.ts'
import { type Edit, isForeignSymbol, rebuilt, writtenToken } from '../clickhouse/server/rebuild.ts'
import { scopeText } from '../clickhouse/sql/explain-syntax.ts'
import type { Token } from '../clickhouse/sql/lexer.ts'
import { clickhouseString, lex, nameOf, symbolOf, wordOf } from '../clickhouse/sql/lexer.ts'
import { lexProblem } from '../clickhouse/sql/reading.ts'
import { type Database, type TableName, tableNames, tables } from '../tables.ts'
import type { ServerFacts } from './schema.ts'
import { hiddenTables, isShownAsStored, storedName, visibleSql } from './schema.ts'

interface Caller {
  readonly subscription: string
  readonly facts: ServerFacts
  /** Of table names without one. */
  readonly database: Database
  /** For `system.tables`. */
  readonly sizes?: TableSizes
}

/** The text to send, or an error. */
export function admit(text: string, caller: Caller): Checked<string> {
  const tokens = lex(text).filter(({ kind }) => kind !== 'comment')
  const unreadable = lexProblem(text, tokens)
  if (unreadable !== null) return fail('SYNTAX_ERROR', unreadable)
  const problem = wordProblem(text, tokens) ?? functionProblem(text, tokens)
  if (problem !== null) return fail(...problem)
  const edits: Edit[] = []
  for (const position of tablePositions(text, tokens)) {
    const edit = tableAt({ ...position, text, tokens, caller })
    if (!edit.ok) return edit
    edits.push(...edit.value)
  }
  if (hasForeignDatabase(text, tokens, edits))
    return fail('UNKNOWN_TABLE', 'tables of system may follow FROM or JOIN only')
  // An old server puts aliases of WITH into every subquery: one of this name would take the place
  // of the column by which the rows of the caller are selected.
  const readsUsage = edits.some(({ text: made }) => made.includes(storedName('usage')))
  if (readsUsage && tokens.some((token) => nameOf(text, token).toLowerCase() === ownerColumn))
    return fail('UNKNOWN_IDENTIFIER', `Unknown identifier '${ownerColumn}'`)
  return checked(rebuilt(text, tokens, edits))
}

/** Whose a row of `usage` is; no customer sees it. */
const ownerColumn = 'subscription'

type Problem = readonly [ExceptionName, string]

/** The stored tables of the views, and our internal tables. */
const hidden: ReadonlySet<string> = new Set([
  ...tableNames.map((name) => `_${name}`),
  ...hiddenTables,
])
const beginnings = new Set(['SELECT', 'WITH', 'FROM', 'EXPLAIN', 'DESCRIBE', 'DESC'])

function wordProblem(text: string, tokens: readonly Token[]): Problem | null {
  const first = tokens.find((token) => symbolOf(text, token) !== '(')
  if (!beginnings.has(wordOf(text, first)))
    return ['SYNTAX_ERROR', 'a query begins with SELECT or WITH']
  for (const [at, token] of tokens.entries()) {
    if (isForeignSymbol(text, token))
      return ['SYNTAX_ERROR', `the sign ${symbolOf(text, token)} is not taken here`]
    const word = wordOf(text, token)
    // Our tables cannot be sampled, and SAMPLE … OFFSET would hide a table after the comma.
    if (word === 'SAMPLE') return ['NOT_IMPLEMENTED', 'SAMPLE is not served here']
    // Refused at every position, because there is no legitimate use of such a name.
    const name = nameOf(text, token)
    if (hidden.has(name)) return ['UNKNOWN_TABLE', unknownTable(name, text)]
    if (word === 'INTO' && wordOf(text, tokens[at + 1]) === 'OUTFILE')
      return ['READONLY', 'INTO OUTFILE is not served here']
    if (word === 'SETTINGS' && isSettingsAt(text, tokens, at))
      return ['READONLY', 'SETTINGS inside a query are not served here']
  }
  return null
}

function unknownTable(name: string, text: string): string {
  return `Unknown table expression identifier '${name.slice(0, 80)}' in scope ${scopeText(text)}`
}

/** A clause and no column of that name: `… SETTINGS a = 1`, or newer `… SETTINGS a`. */
function isSettingsAt(text: string, tokens: readonly Token[], at: number): boolean {
  const isAfter = isAfterValue(text, tokens, at) || symbolOf(text, tokens[at - 1]) === '*'
  const next = tokens[at + 2]
  const isSetting = next === undefined || ['=', '==', ',', ')'].includes(symbolOf(text, next))
  return isAfter && isSetting && nameOf(text, tokens[at + 1]) !== ''
}

function functionProblem(text: string, tokens: readonly Token[]): Problem | null {
  for (const [at, token] of tokens.entries()) {
    if (symbolOf(text, tokens[at + 1]) !== '(') continue
    const name = nameOf(text, token).toLowerCase()
    const isForbidden =
      forbiddenFunctions.has(name) ||
      forbiddenPrefixes.some((prefix) => name.startsWith(prefix)) ||
      // `in(x, t)` is another form of `x IN t` that hides the table.
      (name === 'in' && !(token.kind === 'word' && isAfterValue(text, tokens, at)))
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

/** Whether a value precedes, so that IN is an operator. */
function isAfterValue(text: string, tokens: readonly Token[], at: number): boolean {
  let before = at - 1
  while (['NOT', 'GLOBAL'].includes(wordOf(text, tokens[before]))) before--
  const token = tokens[before]
  if (token === undefined) return false
  if (token.kind === 'symbol') return [')', ']', '}'].includes(symbolOf(text, token))
  return !beforeValues.has(wordOf(text, token))
}

/** Second check: the server's own databases may not be named anywhere else. */
function hasForeignDatabase(
  text: string,
  tokens: readonly Token[],
  edits: readonly Edit[],
): boolean {
  return tokens.some(
    (token, at) =>
      symbolOf(text, tokens[at + 1]) === '.' &&
      serverDatabases.has(nameOf(text, token).toLowerCase()) &&
      !edits.some(({ first, last }) => first <= at && at <= last),
  )
}

const serverDatabases = new Set(['system', 'information_schema', '_temporary_and_external_tables'])

interface Found extends TablePosition {
  readonly text: string
  readonly tokens: readonly Token[]
  readonly caller: Caller
}

function tableAt(found: Found): Checked<readonly Edit[]> {
  const { text, tokens, at, isSet, isDefined, caller } = found
  const first = nameOf(text, tokens[at])
  if (first === '') return fail('SYNTAX_ERROR', 'a table or a subquery is expected in FROM')
  const isDotted = symbolOf(text, tokens[at + 1]) === '.'
  const last = isDotted ? at + 2 : at
  const name = isDotted ? nameOf(text, tokens[last]) : first
  const database = isDotted ? first : caller.database
  const isCall = symbolOf(text, tokens[last + 1]) === '('
  if (isCall && !isDotted) {
    const series = isSet ? null : numbersAt(text, tokens, at)
    if (series !== null) return checked([series])
    if (isSet || harmlessTableFunctions.has(name.toLowerCase())) return checked([])
    return fail('READONLY', `table function ${name.slice(0, 40)} is not served here`)
  }
  const isOther = name === '' || isCall || symbolOf(text, tokens[last + 1]) === '.'
  if (isDefined && !isDotted && !isOther) return checked([])
  const known = isOther ? undefined : sourceOf(database, name, caller)
  if (known === undefined)
    return fail('UNKNOWN_TABLE', unknownTable(isDotted ? `${database}.${name}` : name, text))
  const { alias, end } = suffixOf(text, tokens, last)
  const written = isSet ? known : sourceText({ ...found, name, known, alias })
  return checked([{ first: at, last: isSet ? last : end, text: written }])
}

/**
 * `numbers(10)` and `numbers(5, 10)` with plain numbers: an old server allows no table function to
 * a read-only query. Null for any other call.
 */
function numbersAt(text: string, tokens: readonly Token[], at: number): Edit | null {
  const close = tokens.findIndex((token, index) => index > at && symbolOf(text, token) === ')')
  if (!/^numbers$/i.test(nameOf(text, tokens[at])) || close < 0) return null
  const args = tokens.slice(at + 2, close).map(({ start, end }) => text.slice(start, end))
  if (!/^\d{1,19}(,\d{1,19})?$/.test(args.join(''))) return null
  return {
    first: at,
    last: close,
    text: `(SELECT number FROM system.numbers LIMIT ${args.join('')})`,
  }
}

/**
 * After FROM the stored table itself, because an old server does not use the index of a table
 * through a view with FINAL.
 */
function sourceText(
  source: Found & { readonly name: string; readonly known: string; readonly alias: string },
): string {
  const { text, tokens, at, caller, name, known, alias } = source
  const isFirst = wordOf(text, tokens[at - 1]) === 'FROM'
  const isView = known === `chain.${name}`
  if (isView && isFirst && isShownAsStored(name as TableName, caller.facts))
    return `${storedName(name as TableName)} AS ${alias || name} FINAL`
  return isView && alias === '' ? known : `${known} AS ${alias || name}`
}

/** `FINAL` and an alias after the table, in either order. */
function suffixOf(
  text: string,
  tokens: readonly Token[],
  last: number,
): { readonly alias: string; readonly end: number } {
  const isFinal = (at: number) => wordOf(text, tokens[at]) === 'FINAL'
  let end = isFinal(last + 1) ? last + 1 : last
  const named = wordOf(text, tokens[end + 1]) === 'AS' ? end + 2 : end + 1
  const token = tokens[named]
  const isClause = afterTable.has(wordOf(text, token))
  const isName = token?.kind === 'quoted' || (token?.kind === 'word' && !isClause)
  const alias = isName ? writtenToken(text, token) : ''
  if (isName) end = named
  return { alias, end: isFinal(end + 1) ? end + 1 : end }
}

/** The SQL that replaces a table; undefined when there is no such table. */
function sourceOf(named: string, name: string, caller: Caller): string | undefined {
  const table = visibleTable(databaseOf(named), name)
  if (table === undefined) return undefined
  const path = `${table.database}.${table.name}`
  if (table.database !== 'chain') return serverTables[path] ?? catalogueSql(table, caller)
  if (table.view !== null) {
    const read = admit(table.view, caller)
    return read.ok ? `(${read.value})` : undefined
  }
  if (name !== 'usage') return path
  const columns = Object.keys(tables.usage.columns).filter((column) => column !== ownerColumn)
  const owner = clickhouseString(caller.subscription)
  return `(${visibleSql('usage', caller.facts, columns)} WHERE ${ownerColumn} = ${owner})`
}

/** Tables of the server that reveal nothing about it. */
const serverTables: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['one', 'numbers', 'zeros'].map((name) => [`system.${name}`, `system.${name}`]),
  ),
  'system.functions':
    '(SELECT name, is_aggregate, case_insensitive, alias_to FROM system.functions)',
}

function catalogueSql({ database, name, columns }: VisibleTable, { sizes }: Caller): string {
  const rows = systemRows('View', sizes)[`${database}.${name}`] ?? []
  const types = Object.values(columns)
  const shown = Object.entries(columns).flatMap(([column, type], index) => {
    const cell = `CAST(row.${index + 1} AS ${type}) AS`
    // This database has its names in both cases.
    const names = database === 'system' ? [column] : [column, column.toUpperCase()]
    return names.map((one) => `${cell} \`${one}\``)
  })
  const tuples = rows.map((row) => {
    const cells = row.map((cell, at) => {
      if (typeof cell === 'string') return clickhouseString(cell)
      // Cells of a column have one type, also where some are NULL.
      return types[at]!.startsWith('Nullable(') ? `CAST(${cell} AS ${types[at]})` : cell
    })
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

// Finds every position of a table in a query.
// Walks the tokens with one frame per parenthesis; an ambiguous position counts as one of a table.
// Tracks which names WITH defines, and where they are in scope:
//
//   WITH t AS (SELECT …) SELECT … FROM t     t is a table after its definition and in subqueries
//   WITH (1, 2) AS ids SELECT … IN ids       ids is a set in this SELECT only, and never a table

interface TablePosition {
  /** Index of the first token of the name. */
  readonly at: number
  /** Follows IN. */
  readonly isSet: boolean
  /** The unqualified name was defined by WITH, and is not a table of the server. */
  readonly isDefined: boolean
}

interface Frame {
  /** `tables`: a comma is followed by another table. */
  clause: 'other' | 'tables' | 'with'
  /** The next token starts a table. */
  expects: boolean
  /** `extract(DAY FROM x)`: this FROM is not a clause. */
  isCall: boolean
  /** Contains its own SELECT, and is not just a parenthesis inside one. */
  isQuery: boolean
  /** WITH RECURSIVE: a common table is in scope in its own definition. */
  isRecursive: boolean
  /** Common tables that WITH defined here. */
  readonly tables: Set<string>
  /** Expressions that WITH named here. */
  readonly sets: Set<string>
  /** The common table that this frame defines; '' for none. */
  readonly defines: string
}

/** Words that end the list of tables. */
const clauses = new Set(
  (
    'SELECT WHERE PREWHERE GROUP ORDER HAVING LIMIT OFFSET FETCH UNION INTERSECT EXCEPT WINDOW ' +
    'QUALIFY SETTINGS FORMAT INTO WITH'
  ).split(' '),
)
const callsWithFrom = new Set(['EXTRACT', 'TRIM', 'SUBSTRING', 'SUBSTR', 'OVERLAY', 'POSITION'])
const setOperators = new Set(['UNION', 'EXCEPT', 'INTERSECT'])
const queryWords = new Set(['SELECT', 'WITH', 'FROM', 'EXPLAIN'])

function* tablePositions(text: string, tokens: readonly Token[]): Iterable<TablePosition> {
  const frames: Frame[] = [frameOf({})]
  for (const [at, token] of tokens.entries()) {
    const frame = frames.at(-1)!
    const symbol = symbolOf(text, token)
    const word = wordOf(text, token)
    if (frame.expects && symbol !== '(') {
      frame.expects = false
      // `FROM (SELECT …)`: the parenthesis contains a query, not a table name.
      if (!queryWords.has(word)) {
        yield { at, isSet: false, isDefined: isTable(frames, nameOf(text, token)) }
        continue
      }
    }
    if (symbol === '(') frames.push(innerFrame(frame, { text, tokens, at }))
    else if (symbol === ')') {
      if (frames.length > 1) frames.pop()
      if (frame.defines !== '') frames.at(-1)!.tables.add(frame.defines)
    } else if (symbol === ',') frame.expects = frame.clause === 'tables'
    else if (word === 'IN') yield* setPosition(text, tokens, at + 1, frames)
    else step(frame, { text, tokens, at }, word)
  }
}

function frameOf(given: Partial<Frame>): Frame {
  return {
    clause: 'other',
    expects: false,
    isCall: false,
    isQuery: false,
    isRecursive: false,
    tables: new Set(),
    sets: new Set(),
    defines: '',
    ...given,
  }
}

interface Position {
  readonly text: string
  readonly tokens: readonly Token[]
  readonly at: number
}

function innerFrame(frame: Frame, { text, tokens, at }: Position): Frame {
  const { expects } = frame
  frame.expects = false
  // `WITH name AS (`, and the same after a comma.
  const isFirst = ['WITH', 'RECURSIVE'].includes(wordOf(text, tokens[at - 3]))
  const isDefinition =
    frame.clause === 'with' &&
    wordOf(text, tokens[at - 1]) === 'AS' &&
    (isFirst || symbolOf(text, tokens[at - 3]) === ',') &&
    queryWords.has(wordOf(text, tokens[at + 1]))
  const defines = isDefinition ? nameOf(text, tokens[at - 2]) : ''
  return frameOf({
    clause: expects ? 'tables' : 'other',
    expects,
    isCall: callsWithFrom.has(wordOf(text, tokens[at - 1])),
    defines,
    tables: new Set(frame.isRecursive && isDefinition ? [defines] : []),
  })
}

/** Whether WITH of this query or of an enclosing one defined a table of that name before. */
function isTable(frames: readonly Frame[], name: string): boolean {
  return frames.some((frame) => frame.tables.has(name))
}

/** Whether WITH of this SELECT gave an expression that name. */
function isNamedSet(frames: readonly Frame[], name: string): boolean {
  const own = frames.findLastIndex((frame) => frame.isQuery)
  return frames.slice(Math.max(0, own)).some((frame) => frame.sets.has(name))
}

/** `x IN t`, `x IN (t)`, `x IN (t AS y)`: a single name is a table, also in parentheses. */
function* setPosition(
  text: string,
  tokens: readonly Token[],
  first: number,
  frames: readonly Frame[],
): Iterable<TablePosition> {
  let at = first
  while (symbolOf(text, tokens[at]) === '(') at++
  if (!isName(tokens[at])) return
  let end = at + 1
  while (symbolOf(text, tokens[end]) === '.') end += 2
  const isAlone = symbolOf(text, tokens[end]) === ')' || wordOf(text, tokens[end]) === 'AS'
  const name = nameOf(text, tokens[at])
  const isDefined = isTable(frames, name) || isNamedSet(frames, name)
  if (at === first || isAlone) yield { at, isSet: true, isDefined }
}

function step(frame: Frame, { text, tokens, at }: Position, word: string): void {
  const before = wordOf(text, tokens[at - 1])
  if (word === 'AS' && frame.clause === 'with') frame.sets.add(nameOf(text, tokens[at + 1]))
  else if (word === 'RECURSIVE' && before === 'WITH')
    frame.isRecursive = wordOf(text, tokens[at + 1]) !== 'AS'
  else if (word === 'FROM' && !frame.isCall) {
    frame.clause = 'tables'
    frame.expects = true
    frame.isQuery = true
  } else if (word === 'JOIN') {
    // ARRAY JOIN is followed by arrays, separated by commas.
    frame.expects = before !== 'ARRAY'
    frame.clause = before === 'ARRAY' ? 'other' : 'tables'
  } else if (word === 'USING' && symbolOf(text, tokens[at + 1]) !== '(') frame.clause = 'other'
  else if (word === 'DESCRIBE' || word === 'DESC') {
    // As a statement; after ORDER BY it is a direction.
    if (at === 0) frame.expects = true
  } else if (word === 'TABLE') {
    // `(TABLE x)` where a server supports it; otherwise a column name.
    const isFirst = symbolOf(text, tokens[at - 1]) === '(' || beforeTable.has(before)
    frame.expects = isFirst && isName(tokens[at + 1])
  } else if (clauses.has(word)) enterClause(frame, word)
}

function enterClause(frame: Frame, word: string): void {
  frame.clause = word === 'WITH' && !frame.isQuery ? 'with' : 'other'
  if (word === 'SELECT') frame.isCall = false
  if (word === 'SELECT' || word === 'WITH') frame.isQuery = true
  // The next SELECT has its own names, and may have its own WITH.
  if (!setOperators.has(word)) return
  frame.sets.clear()
  frame.isQuery = false
}

const beforeTable = new Set([...setOperators, 'ALL', 'DISTINCT', 'EXPLAIN'])

function isName(token: Token | undefined): boolean {
  return token?.kind === 'word' || token?.kind === 'quoted'
}

// Functions that a customer's query may not call on a ClickHouse server. Thread: any; data.
// They read other sources (files, URLs, dictionaries, other servers), or reveal server internals.
// The server forbids most of them as well: every query is read-only, and the user of
// `indexer.url` should have rights on `chain` only.

/** As a table only these functions are allowed; in expressions all except the forbidden ones. */
const harmlessTableFunctions: ReadonlySet<string> = new Set([
  ...['numbers', 'numbers_mt', 'zeros', 'zeros_mt', 'generateseries', 'generate_series', 'values'],
])

/** In lower case. Includes table functions, because IN accepts them as tables. */
const forbiddenFunctions: ReadonlySet<string> = new Set(
  `
  arrowflight azureblobstorage azureblobstoragecluster cluster clusterallreplicas cosn deltalake
  deltalakeazure deltalakecluster deltalakelocal deltalakes3 dictionary executable executablepool
  file filecluster filesystem fuzzjson fuzzquery gcs generaterandom hdfs hdfscluster hudi
  hudicluster hive iceberg icebergazure icebergazurecluster icebergcluster iceberghdfs
  iceberghdfscluster iceberglocal icebergs3 icebergs3cluster input jdbc loop merge
  mergetreeanalyzeindexes mergetreeindex mergetreeparts mergetreeprojection mongodb mysql
  odbc oss paimon paimonazure paimons3 postgresql prometheusquery prometheusqueryrange
  redis remote remotesecure s3 s3cluster sqlite timeseriesdata timeseriesmetrics timeseriesselector
  timeseriestags url urlcluster view viewexplain viewifpermitted ytsaurus

  globalin globalinignoreset globalnotin globalnotinignoreset
  globalnotnullin globalnotnullinignoreset
  globalnullin globalnullinignoreset inignoreset notin notinignoreset notnullin notnullinignoreset
  nullin nullinignoreset

  joinget joingetornull hascolumnintable modelevaluate catboostevaluate evalmlmethod
  filesystemavailable filesystemcapacity filesystemfree filesystemunreserved
  addresstoline addresstolinewithinlines addresstosymbol demangle
  buildid connectionid connection_id currentprofiles currentquerycontext currentroles currentuser
  current_user defaultprofiles defaultroles displayname enabledprofiles enabledroles fqdn
  fullhostname getclienthttpheader getmacro getmaxtablenamelengthfordatabase getmergetreesetting
  getoskernelversion getscalar getserverport getserversetting getsetting getsettingordefault
  hostname initialquery_id initialqueryid initialquerystarttime partitionid queryid query_id
  regionhierarchy regionin regiontoarea regiontocity regiontocontinent regiontocountry
  regiontodistrict regiontoname regiontopopulation regiontotopcontinent
  serveruuid session_user showcertificate system_user tcpport transactionid
  transactionlatestsnapshot transactionoldestsnapshot uptime user zookeepersessionuptime
  aigenerate aiclassify aiextract aitranslate generateembedding httpget
  `
    .trim()
    .split(/\s+/),
)

/** Function families by prefix. */
const forbiddenPrefixes = ['dictget', 'dicthas', 'dictisin', 'paimon', 'iceberg', 'deltalake']
