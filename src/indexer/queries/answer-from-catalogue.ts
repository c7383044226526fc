// Answers SHOW, DESCRIBE, EXISTS and USE from the catalogue without an engine.
// Tools send these before anything else.
import {
  createText,
  databaseOf,
  databases,
  type VisibleTable,
  visibleTable,
  visibleTables,
} from '../catalogue.ts'
import { type Checked, checked, fail, shownName } from '../clickhouse/exceptions.ts'
import { arrange, modeOf } from '../clickhouse/formats/arranged.ts'
import { type Format, isTextFormat } from '../clickhouse/formats/formats.ts'
import { cellText, layoutOf, rowNumber, rowRule } from '../clickhouse/formats/layouts.ts'
import { type Reading, TokenCursor } from '../clickhouse/sql/reading.ts'
import type { Database } from '../tables.ts'

/** The result; null when the engine must answer (`DESCRIBE (SELECT …)`). */
export function answerFromCatalogue(
  reading: Reading,
  current: Database,
): Checked<SmallResult | null> {
  const cursor = new TokenCursor(reading)
  switch (reading.kind) {
    case 'show':
      cursor.word('SHOW')
      return show(cursor, current)
    case 'describe':
      cursor.word('DESCRIBE', 'DESC')
      cursor.word('TABLE')
      return describe(cursor, current)
    case 'exists':
      cursor.word('EXISTS')
      return exists(cursor, current)
    default:
      cursor.word('USE')
      return use(cursor)
  }
}

function show(cursor: TokenCursor, current: Database): Checked<SmallResult> {
  cursor.word('FULL')
  switch (cursor.word('TABLES', 'DATABASES', 'COLUMNS', 'FIELDS', 'CREATE')) {
    case 'TABLES': {
      const database = cursor.word('FROM', 'IN') === '' ? current : databaseOf(cursor.name())
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
      return described(cursor, current)
    }
    case 'CREATE':
      cursor.word('TABLE', 'VIEW')
      return created(cursor, current)
    default:
      return fail('SYNTAX_ERROR', 'SHOW knows TABLES, DATABASES, COLUMNS and CREATE TABLE')
  }
}

/** Names that match `[NOT] LIKE 'x%'`, up to `LIMIT n`. */
function listOf(cursor: TokenCursor, names: readonly string[]): Checked<SmallResult> {
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

function describe(cursor: TokenCursor, current: Database): Checked<SmallResult | null> {
  const table = cursor.symbol('(') || cursor.word('SELECT', 'WITH') !== '' ? null : cursor
  return table === null ? checked(null) : described(table, current)
}

function described(cursor: TokenCursor, current: Database): Checked<SmallResult> {
  const table = tableAt(cursor, current)
  if (!table.ok) return table
  const columns = ['name', 'type', 'default_type', 'default_expression', 'comment']
  return checked({
    columns: columns.map((name) => ({ name, type: 'String' })),
    rows: Object.entries(table.value.columns).map(([name, type]) => {
      return [name, type, '', '', table.value.comments[name] ?? '']
    }),
  })
}

function created(cursor: TokenCursor, current: Database): Checked<SmallResult> {
  const table = tableAt(cursor, current)
  if (!table.ok) return table
  return checked({
    columns: [{ name: 'statement', type: 'String' }],
    rows: [[createText(table.value)]],
  })
}

function exists(cursor: TokenCursor, current: Database): Checked<SmallResult> {
  const what = cursor.word('TABLE', 'VIEW', 'DATABASE', 'TEMPORARY', 'DICTIONARY')
  const found = what === 'DATABASE' ? null : tableAt(cursor, current)
  const isThere =
    found === null
      ? databaseOf(cursor.name()) !== null
      : found.ok && (what !== 'VIEW' || found.value.view !== null)
  return checked({ columns: [{ name: 'result', type: 'UInt8' }], rows: [[isThere ? 1 : 0]] })
}

function use(cursor: TokenCursor): Checked<SmallResult> {
  return databaseOf(cursor.name()) === null
    ? fail('UNKNOWN_DATABASE', 'there is no such database')
    : checked({ columns: [], rows: [] })
}

/** `table`, `database.table`, `table FROM database`. */
function tableAt(cursor: TokenCursor, current: Database): Checked<VisibleTable> {
  let name = cursor.name()
  let database: Database | null = current
  if (cursor.symbol('.')) {
    database = databaseOf(name)
    name = cursor.name()
  } else if (cursor.word('FROM', 'IN') !== '') database = databaseOf(cursor.name())
  if (name === null || !cursor.isAtEnd) return unclear()
  const found = visibleTable(database, name)
  return found === undefined
    ? fail('UNKNOWN_TABLE', `there is no table ${shownName(name)}; SHOW TABLES lists them`)
    : checked(found)
}

function unclear() {
  return fail('SYNTAX_ERROR', 'the statement has a word too many or too few')
}

// Renders a result that the endpoint builds itself (SHOW, DESCRIBE, KILL) without an engine.

export interface SmallResult {
  readonly columns: readonly { readonly name: string; readonly type: string }[]
  readonly rows: readonly (readonly (string | number)[])[]
}

/** The same text as an engine's; null for binary formats, which only an engine writes. */
export function renderSmall({ columns, rows }: SmallResult, format: Format): string | null {
  if (!isTextFormat(format)) return null
  if (columns.length === 0) return ''
  const count = { rows: rows.length, readRows: rows.length }
  const statistics = { ...count, elapsedSeconds: 0, isLimited: false, totals: null }
  const { writing } = format
  if ('whole' in writing) {
    const write = cellText(modeOf(writing.whole))
    const cells = columns.map((_, at) => rows.map((row) => write(row[at]!)))
    return arrange(writing.whole, { columns, cells, statistics })
  }
  const layout = layoutOf(format, columns)
  if (layout.isSilent) return ''
  const write = cellText(layout.mode)
  const texts = rows.map((row, at) => {
    const title = `Row ${at + 1}:`
    const cells = layout.leads.map((lead, index) => lead + write(row[index]!)).join('')
    return (
      cells.replace(rowNumber, String(at + 1)).replace(rowRule, '─'.repeat(title.length)) +
      layout.close
    )
  })
  return layout.begin + texts.join(layout.between) + layout.end(statistics)
}
