// Answers SHOW, DESCRIBE, EXISTS and USE from the catalogue without an engine. Thread: any (pure).
// Tools send these before anything else.
import { DATABASE, databases, type VisibleTable, visibleTables } from './catalogue.ts'
import { type Checked, checked, fail, shownName } from './exceptions.ts'
import type { SmallResult } from './small-result.ts'
import { Cursor } from './sql/cursor.ts'
import type { Reading } from './sql/reading.ts'

/** The result; null when the engine must answer (`DESCRIBE (SELECT …)`). */
export function answerFromCatalogue(reading: Reading): Checked<SmallResult | null> {
  const cursor = new Cursor(reading)
  switch (reading.kind) {
    case 'show':
      cursor.word('SHOW')
      return show(cursor)
    case 'describe':
      cursor.word('DESCRIBE', 'DESC')
      cursor.word('TABLE')
      return describe(cursor)
    case 'exists':
      cursor.word('EXISTS')
      return exists(cursor)
    default:
      cursor.word('USE')
      return use(cursor)
  }
}

function show(cursor: Cursor): Checked<SmallResult> {
  cursor.word('FULL')
  switch (cursor.word('TABLES', 'DATABASES', 'COLUMNS', 'FIELDS', 'CREATE')) {
    case 'TABLES': {
      const database = cursor.word('FROM', 'IN') === '' ? DATABASE : databaseOf(cursor.name())
      if (database === null) return fail('UNKNOWN_DATABASE', 'there is no such database')
      const names = visibleTables.filter((table) => table.database === database)
      return listOf(
        cursor,
        names.map(({ name }) => name),
      )
    }
    case 'DATABASES':
      return listOf(cursor, databases)
    case 'COLUMNS':
    case 'FIELDS': {
      cursor.word('FROM', 'IN')
      return described(cursor)
    }
    case 'CREATE':
      cursor.word('TABLE')
      return created(cursor)
    default:
      return fail('SYNTAX_ERROR', 'SHOW knows TABLES, DATABASES, COLUMNS and CREATE TABLE')
  }
}

/** Names that match `[NOT] LIKE 'x%'`, up to `LIMIT n`. */
function listOf(cursor: Cursor, names: readonly string[]): Checked<SmallResult> {
  const isNot = cursor.word('NOT') !== ''
  const like = cursor.word('LIKE', 'ILIKE')
  const pattern = like === '' ? null : cursor.string()
  if ((like === '') !== (pattern === null)) return unclear()
  let found = names.filter((name) => pattern === null || isLike(name, pattern, like) !== isNot)
  if (cursor.word('LIMIT') !== '') {
    const count = cursor.number()
    if (count === null) return unclear()
    found = found.slice(0, count)
  }
  if (!cursor.isAtEnd) return unclear()
  return checked({
    columns: [{ name: 'name', type: 'String' }],
    rows: found.map((name) => [name]),
  })
}

/** SQL's LIKE without a regular expression, whose backtracking could take forever. */
function isLike(name: string, pattern: string, like: string): boolean {
  const [text, wanted] =
    like === 'ILIKE' ? [name.toLowerCase(), pattern.toLowerCase()] : [name, pattern]
  let at = 0
  let along = 0
  let star = -1
  let mark = 0
  while (at < text.length) {
    if (wanted[along] === '%') {
      star = along++
      mark = at
    } else if (wanted[along] === '_' || wanted[along] === text[at]) {
      along++
      at++
    } else if (star >= 0) {
      along = star + 1
      at = ++mark
    } else return false
  }
  while (wanted[along] === '%') along++
  return along === wanted.length
}

function describe(cursor: Cursor): Checked<SmallResult | null> {
  const table = cursor.symbol('(') || cursor.word('SELECT', 'WITH') !== '' ? null : cursor
  return table === null ? checked(null) : described(table)
}

function described(cursor: Cursor): Checked<SmallResult> {
  const table = tableAt(cursor)
  if (!table.ok) return table
  const columns = ['name', 'type', 'default_type', 'default_expression', 'comment']
  return checked({
    columns: columns.map((name) => ({ name, type: 'String' })),
    rows: Object.entries(table.value.columns).map(([name, type]) => [name, type, '', '', '']),
  })
}

function created(cursor: Cursor): Checked<SmallResult> {
  const table = tableAt(cursor)
  if (!table.ok) return table
  const { database, name, columns, key } = table.value
  const lines = Object.entries(columns).map(([column, type]) => `    ${column} ${type}`)
  const order = `ORDER BY (${key.join(', ')})`
  const text = `CREATE TABLE ${database}.${name}\n(\n${lines.join(',\n')}\n)\n${order}`
  return checked({ columns: [{ name: 'statement', type: 'String' }], rows: [[text]] })
}

function exists(cursor: Cursor): Checked<SmallResult> {
  const what = cursor.word('TABLE', 'VIEW', 'DATABASE', 'TEMPORARY', 'DICTIONARY')
  const isThere =
    what === 'DATABASE' ? databaseOf(cursor.name()) !== null : tableAt(cursor).ok && what !== 'VIEW'
  return checked({ columns: [{ name: 'result', type: 'UInt8' }], rows: [[isThere ? 1 : 0]] })
}

function use(cursor: Cursor): Checked<SmallResult> {
  return databaseOf(cursor.name()) === null
    ? fail('UNKNOWN_DATABASE', 'there is no such database')
    : checked({ columns: [], rows: [] })
}

/** `table`, `database.table`, `table FROM database`. */
function tableAt(cursor: Cursor): Checked<VisibleTable> {
  let name = cursor.name()
  let database: string | null = DATABASE
  if (cursor.symbol('.')) {
    database = databaseOf(name)
    name = cursor.name()
  } else if (cursor.word('FROM', 'IN') !== '') database = databaseOf(cursor.name())
  if (name === null || !cursor.isAtEnd) return unclear()
  const found = visibleTables.find(
    (table) => table.name === name && (table.database as string) === database,
  )
  return found === undefined
    ? fail('UNKNOWN_TABLE', `there is no table ${shownName(name)}; SHOW TABLES lists them`)
    : checked(found)
}

/** The database of that name; null when it does not exist. */
export function databaseOf(name: string | null): string | null {
  if (name === null || name === '' || name.toLowerCase() === 'default')
    return name === null ? null : DATABASE
  return databases.find((known) => known === name) ?? null
}

function unclear() {
  return fail('SYNTAX_ERROR', 'the statement has a word too many or too few')
}
