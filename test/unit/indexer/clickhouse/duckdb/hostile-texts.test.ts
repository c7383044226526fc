// A text of a customer, as a literal or a bound parameter, is only ever a string in DuckDB's SQL.
// Every function of the printer's tables is printed with hostile texts in each of its arguments.
import { type DuckDBConnection, DuckDBInstance, TIMESTAMP_S } from '@duckdb/node-api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { aggregateNames } from '../../../../../src/indexer/clickhouse/duckdb/aggregates.ts'
import { definitions } from '../../../../../src/indexer/clickhouse/duckdb/definitions.ts'
import { functions } from '../../../../../src/indexer/clickhouse/duckdb/functions.ts'
import { columnOf, rowsSql } from '../../../../../src/indexer/clickhouse/duckdb/nested-text.ts'
import { typedOperators } from '../../../../../src/indexer/clickhouse/duckdb/operators.ts'
import { windowFunctions } from '../../../../../src/indexer/clickhouse/duckdb/print-expression.ts'
import { translate } from '../../../../../src/indexer/clickhouse/duckdb/print-select.ts'
import { allowedFunctions } from '../../../../../src/indexer/clickhouse/duckdb/syntax-tree.ts'
import { formatOf } from '../../../../../src/indexer/clickhouse/formats/formats.ts'
import { layoutOf } from '../../../../../src/indexer/clickhouse/formats/layouts.ts'
import {
  clickhouseName,
  clickhouseString,
} from '../../../../../src/indexer/clickhouse/sql/lexer.ts'
import { parseValue } from '../../../../../src/indexer/clickhouse/sql/parameters.ts'
import { parseType } from '../../../../../src/indexer/clickhouse/sql/types.ts'
import { catalogue } from '../../../../../src/indexer/duckdb/schemas.ts'
import { caseCount } from '../../../../testkit/case-count.ts'

/** In every hostile text: outside of a string or a quoted name it is SQL of the customer. */
const mark = 'zq41'

const breakOut = `1) || (SELECT ${mark}) || (`
const hostile = [
  `'"$(${mark} ' || ${mark} || ' -- /* $$ \\' ${mark}`,
  breakOut,
  `$1 $p1 $* $D ${mark} $& $' $\` # ' || ${mark} || '`,
  `a\0 v_99999999999999999999999 ${mark}`,
]

/** Texts that have a meaning for some function; hostile ones are inserted everywhere in them. */
const meaningful = [
  '1',
  'day',
  '%Y',
  'sum',
  'UInt8',
  'Europe/Berlin',
  'Decimal(9, 2)',
  'Decimal64(2)',
  'FixedString(3)',
  "DateTime('Europe/Berlin')",
  "DateTime64(3, 'Europe/Berlin')",
  "Array(DateTime('Europe/Berlin'))",
  'Map(String, Nullable(UInt8))',
  'Tuple(a UInt8, b String)',
  "Enum8('a' = 1, 'b' = 2)",
  // A name that every object of JavaScript has.
  'constructor',
]

/** The text with hostile ones before, after and beside each of its signs. */
function spoiled(text: string): readonly string[] {
  const all = [...Array(text.length + 1).keys()].filter(
    (at) => at === 0 || at === text.length || /\W/.test(text.slice(at - 1, at + 1)),
  )
  return all.flatMap((at) =>
    hostile.slice(0, caseCount(1, 2)).map((one) => text.slice(0, at) + one + text.slice(at)),
  )
}

type Call = (text: string) => string

/** Arguments of every type around a text. */
const kinds: Readonly<Record<string, Call>> = {
  T: (text) => text,
  L: (text) => `-length(${text})`,
  D: (text) => `toDateTime(${text})`,
  A: (text) => `[${text}]`,
  M: (text) => `map(${text}, 1)`,
  P: (text) => `(${text}, 1)`,
  F: (text) => `x -> concat(x, ${text})`,
}
const lists = 'T L D A M P TT TL TD LT LL DT DL AT AL AA FA TTT TTL LTT AAA DLT TTTT'.split(' ')
/** For functions whose SQL is a text with places for arguments. */
const fewLists = 'T TT LT AT FA TTT'.split(' ')
/** Lists in which a text has a meaning: `?` is its place. */
const meant = ['?', 'T?', 'L?', 'D?', 'TT?', 'DL?', '?LD', '?DD', '?A']

const callsOf =
  (all: readonly string[]) =>
  (name: string): readonly Call[] =>
    all.map(
      (list) => (text) => `${name}(${[...list].map((kind) => kinds[kind]!(text)).join(', ')})`,
    )

/** Of the lists that each function is called with: every second one, another half for the next. */
const someOf = (all: readonly string[], at: number): readonly string[] =>
  all.filter((_, index) => (index + at) % caseCount(2, 1) === 0)

/** With one text in its place and plain ones beside it. */
const meantCalls = (name: string, at: number): readonly Call[] =>
  someOf(meant, at).map((list) => (text) => {
    const args = [...list].map((kind) => (kind === '?' ? text : kinds[kind]!("'1'")))
    return `${name}(${args.join(', ')})`
  })

function aggregatesOf(name: string): readonly Call[] {
  const plain = callsOf(lists.filter((list) => list.length < 3))(name)
  const params = ['T', 'L', 'A'].flatMap((list): Call[] => [
    (text) => `${name}(${text})(${kinds[list]!(text)})`,
    (text) => `${name}('$1', 1)(${kinds[list]!(text)})`,
  ])
  const combined = ['If', 'Array', 'Distinct', 'OrNull'].map(
    (more) => (text: string) => `${name}${more}(${more === 'Array' ? `[${text}]` : text}, 1)`,
  )
  return [...plain, ...params, ...combined]
}

/** True when printed SQL has more of a text than one string: `E'…'` would be another string. */
function isBroken(sql: string): boolean {
  const left = sql.replaceAll(/(\w?)'(?:[^']|'')*'|"(?:[^"]|"")*"/g, (_, before = '') =>
    before === '' ? ' ' : mark,
  )
  return sql.includes('\0') || /zq41|['"$]|--|\/\*|\b(undefined|NaN|native code)\b|\de\+/.test(left)
}

function printed(expr: string, value?: string): string | null {
  const one = { type: 'String', value: value ?? '', source: '{p:String}' }
  const values = Array(expr.split('{p:').length - 1).fill(one)
  const made = translate(`SELECT ${expr}`, { catalogue, values })
  return made.ok ? made.value.sql : null
}

const printedAll = (calls: readonly Call[], texts: readonly string[]): readonly string[] =>
  calls.flatMap((call) =>
    texts
      .flatMap((one, at) => [
        printed(call(clickhouseString(one))),
        one !== breakOut && at !== 0 ? null : printed(call('{p:String}'), one),
      ])
      .filter((sql) => sql !== null),
  )

/** Calls that take a plain text take hostile ones as well. */
function withHostile(calls: readonly Call[]): readonly string[] {
  return printedAll(
    calls.filter((call) => printed(call("'a'")) !== null),
    hostile.slice(0, caseCount(2, 4)),
  )
}

/** Calls that take a text with a meaning take no other one into their SQL. */
function withSpoiled(calls: readonly Call[]): readonly string[] {
  return calls.flatMap((call) => {
    if (printed(call("'a'")) !== null) return []
    const known = meaningful.filter((one) => printed(call(clickhouseString(one))) !== null)
    return printedAll([call], [...known, ...known.flatMap(spoiled)])
  })
}

const scalarNames = [
  ...new Set([...Object.keys(functions), ...Object.keys(typedOperators), 'in', 'notIn']),
]
/** Functions whose SQL is made by code, which may read the text of a literal. */
const codeNames = [
  'cast',
  ...Object.entries(functions)
    .filter(([, entry]) => typeof entry === 'object' && typeof entry.sql === 'function')
    .filter(([name]) => functions[name] !== definitions[name])
    .map(([name]) => name)
    // Of conversions to numbers of every width one has the code of all.
    .filter((name) => !/^to(u?int(8|16|32|128)|float32|decimal(32|64))/.test(name)),
]

let connection: DuckDBConnection
const { stackTraceLimit } = Error
beforeAll(async () => {
  // Most of these texts are refused: the stack of each takes longer than the refusal.
  Error.stackTraceLimit = 0
  connection = await (await DuckDBInstance.create(':memory:')).connect()
})

afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit
})

/** DuckDB's own parser sees as many queries as were printed, and no name of the customer's. */
async function expectParsed(all: readonly string[]): Promise<void> {
  for (let at = 0; at < all.length; at += 200) {
    const part = all.slice(at, at + 200)
    const found = await connection.runAndReadAll('SELECT json_serialize_sql($1::VARCHAR)', [
      part.join(';\n'),
    ])
    const tree = JSON.parse(String(found.getRows()[0]![0]))
    expect(tree.error_message ?? '', part.join('\n').slice(0, 2_000)).toBe('')
    expect(tree.statements.length).toBe(part.length)
    const names = JSON.stringify(tree).matchAll(
      /"(?:column_names|table_name)":\s*(\[[^\]]*\]|"[^"]*")/g,
    )
    for (const [, list = ''] of names) expect(list).not.toContain(`"${mark}"`)
  }
}

function expectTexts(all: readonly string[]): void {
  expect(all.length).toBeGreaterThan(100)
  expect([...new Set(all)].filter(isBroken).slice(0, 5)).toEqual([])
}

describe('a text of a customer', () => {
  test('is a string in every argument of every function', () => {
    const isCode = new Set(codeNames)
    expectTexts(
      withHostile(
        scalarNames.flatMap((name, at) =>
          callsOf(isCode.has(name) ? someOf(lists, at) : fewLists)(name),
        ),
      ),
    )
  })

  test('is a string beside a type, a unit, a format or a time zone', () => {
    expectTexts(withSpoiled(codeNames.flatMap(meantCalls)))
  })

  test('is a string in functions that are printed by name alone', () => {
    const names = [...allowedFunctions].filter((name) => /^\w+$/.test(name))
    expectTexts(withHostile(names.flatMap(callsOf(['TA']))))
  })

  test('is a string in every argument and parameter of every aggregate function', () => {
    expectTexts(withHostile(aggregateNames.flatMap(aggregatesOf)))
  })

  test('is a string in every argument of every window function', () => {
    const over = Object.keys(windowFunctions).flatMap((name) =>
      callsOf(['', 'T', 'TL', 'LT', 'TLT'])(name).map(
        (call) => (text: string) => `${call(text)} OVER (PARTITION BY ${text} ORDER BY ${text})`,
      ),
    )
    expectTexts(withHostile(over))
  })

  test('is a quoted name as an alias, a table, a window or an argument of a lambda', async () => {
    const statements = hostile.flatMap((text) => {
      const name = clickhouseName(text)
      return [
        `SELECT 1 AS ${name} ORDER BY ${name}`,
        `SELECT ${name}.slot FROM blocks AS ${name}`,
        `SELECT slot FROM (SELECT 1 AS slot) AS ${name}`,
        `WITH ${name} AS (SELECT 1 AS a) SELECT a FROM ${name}`,
        `SELECT sum(slot) OVER ${name} FROM blocks WINDOW ${name} AS (ORDER BY slot)`,
        `SELECT arrayMap(${name} -> ${name} + 1, [1])`,
        `SELECT n FROM blocks ARRAY JOIN [1] AS ${name}, [2] AS n`,
        `SELECT number FROM numbers(3) AS ${name}`,
        `SELECT slot FROM blocks LIMIT 1 BY ${clickhouseString(text)}`,
        `SELECT slot IN (${clickhouseString(text)}), toDate(${clickhouseString(text)}) FROM blocks`,
        `EXPLAIN SYNTAX SELECT ${clickhouseString(text)} AS ${name}`,
      ]
    })
    const all = statements.flatMap((one) => {
      const made = translate(one, { catalogue })
      return made.ok ? [made.value.sql] : []
    })
    expect(all.length).toBeGreaterThan(statements.length / 2)
    expect(all.filter(isBroken)).toEqual([])
    await expectParsed(all)
  })

  test('is a string in a value of every type', async () => {
    const types = `String FixedString(200) Nullable(String) LowCardinality(String) UInt8 Float64
      Decimal(9,2) Date DateTime DateTime64(3) UUID Bool`.split(/\s+/)
    const nested = types.flatMap((type) => [type, `Array(${type})`, `Map(String, ${type})`])
    const enums = hostile.map((text) => `Enum8(${clickhouseString(text)} = 1)`)
    const all = [...nested, ...enums].flatMap((name) =>
      hostile.flatMap((text) => {
        const quoted = clickhouseString(text)
        return [text, `[${quoted}]`, `{${quoted}:${quoted}}`].flatMap((given) => {
          const type = parseType(name)
          const value = type === null ? null : parseValue(type, given)
          if (value === null) return []
          const source = `{p:${name}}`
          const made = translate(`SELECT ${source}`, { catalogue, values: [{ ...value, source }] })
          return made.ok ? [made.value.sql] : []
        })
      }),
    )
    expect(all.length).toBeGreaterThan(20)
    expect(all.filter(isBroken)).toEqual([])
    await expectParsed(all)
  })

  test('is a string where the time of a zone is rendered', () => {
    const types = meaningful.filter((one) => one.includes('DateTime')).flatMap(spoiled)
    const all = types.flatMap((type) => {
      const text = clickhouseString(type)
      return [
        `accurateCast(now(), ${text})`,
        `CAST(now(), ${text})`,
        `JSONExtract('{}', 'a', ${text})`,
        `arrayJoin(CAST([now()], ${text}))`,
        `toTimeZone(now(), ${text})`,
      ].flatMap((expr) => {
        const made = translate(`SELECT ${expr}`, { catalogue })
        if (!made.ok) return []
        const { sql, columns } = made.value
        const shown = { ...columnOf('a', TIMESTAMP_S, 'q.c0'), shown: columns[0]!.type }
        const layout = layoutOf(formatOf('TSV', 'duckdb')!, columns)
        return [sql, rowsSql(sql, [shown], layout, { quotes64: true })]
      })
    })
    expect(all.filter(isBroken)).toEqual([])
  })
})
