// Finds every position of a table in a query.
// Walks the tokens with one frame per parenthesis; an ambiguous position counts as one of a table.
// Tracks which names WITH defines, and where they are in scope:
//
//   WITH t AS (SELECT …) SELECT … FROM t     t is a table after its definition and in subqueries
//   WITH (1, 2) AS ids SELECT … IN ids       ids is a set in this SELECT only, and never a table
import { symbolOf, type Token, wordOf } from '../sql/lexer.ts'
import { nameOf } from '../sql/quoting.ts'

export interface TablePosition {
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

export function* tablePositions(text: string, tokens: readonly Token[]): Iterable<TablePosition> {
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
export const harmlessTableFunctions: ReadonlySet<string> = new Set([
  ...['numbers', 'numbers_mt', 'zeros', 'zeros_mt', 'generateseries', 'generate_series', 'values'],
])

/** In lower case. Includes table functions, because IN accepts them as tables. */
export const forbiddenFunctions: ReadonlySet<string> = new Set(
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
export const forbiddenPrefixes = [
  'dictget',
  'dicthas',
  'dictisin',
  'paimon',
  'iceberg',
  'deltalake',
]
