// SQL of customers: the reader, the printer for DuckDB, and the gate before a ClickHouse server.
import { ok } from 'node:assert'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sleepOf } from '../../../src/indexer/clickhouse/duckdb/gate.ts'
import { translate } from '../../../src/indexer/clickhouse/duckdb/print-select.ts'
import { explainSyntax } from '../../../src/indexer/clickhouse/sql/explain-syntax.ts'
import type { Token } from '../../../src/indexer/clickhouse/sql/lexer.ts'
import { fingerprint, lex, readQuoted } from '../../../src/indexer/clickhouse/sql/lexer.ts'
import { bindParameters, parseValue } from '../../../src/indexer/clickhouse/sql/parameters.ts'
import { parseStatement } from '../../../src/indexer/clickhouse/sql/parse-select.ts'
import { readStatement } from '../../../src/indexer/clickhouse/sql/reading.ts'
import { parseType } from '../../../src/indexer/clickhouse/sql/types.ts'
import { admit } from '../../../src/indexer/clickhouse-server/gate.ts'
import { hiddenTables } from '../../../src/indexer/clickhouse-server/schema.ts'
import { catalogue } from '../../../src/indexer/duckdb/schemas.ts'
import { tableNames } from '../../../src/indexer/tables.ts'
import { root } from '../corpus.ts'
import { same, type Target, text } from '../target.ts'

const golden = join(root, 'test', 'golden', 'indexer', 'clauses.json')
const { cases } = JSON.parse(readFileSync(golden, 'utf8')) as { cases: { sql: string }[] }
const everyNth = 6
const seeds = () => [
  ...cases.filter((_, index) => index % everyNth === 0).map(({ sql }) => text(sql)),
  text("WITH a AS (SELECT 1 AS x) SELECT * FROM a, blocks WHERE s IN ('x') -- c\nFORMAT JSON"),
  text('SELECT {n:UInt8}, `q`, "r", 0x1f, 1e5, t.1, [1,2][1], {m:Array(String)} SETTINGS a = 1'),
  text('SHOW TABLES'),
  text('KILL QUERY WHERE query_id = 1'),
]
const words = [
  ...' SELECT , FROM , WHERE , GROUP BY , ORDER BY , LIMIT , WITH , AS , JOIN , USING ,(SELECT 1)'.split(
    ',',
  ),
  ...' UNION ALL , ARRAY JOIN , OVER (, PREWHERE , HAVING , FINAL , SAMPLE , FORMAT JSON, SETTINGS '.split(
    ',',
  ),
  ...[
    'blocks',
    'transactions',
    'usage',
    'system.tables',
    'system.users',
    '_transactions',
    'chain.',
  ],
  ...[
    "'",
    '"',
    '`',
    '--',
    '/*',
    '*/',
    '\\',
    '#',
    '$$',
    '$a$',
    '{p:String}',
    '::',
    '->',
    '??',
    '\0',
  ],
  ...[
    'CASE WHEN ',
    ' THEN ',
    ' END',
    ' BETWEEN ',
    ' AND ',
    ' NOT ',
    ' IN ',
    'INTERVAL 1 DAY',
    'CAST(',
  ],
  ...[
    'numbers(',
    'url(',
    'remote(',
    'file(',
    'merge(',
    'cluster(',
    'sleep(',
    'in(',
    'EXPLAIN ',
    'x -> ',
  ],
  ...['\u00a0', '\ufeff', '\u2019', '0b1', '1.', '.5', '*', 'COLUMNS(', 'EXCEPT ', 'REPLACE ', ';'],
]

/** What a text nests at most is refused before it takes the stack. */
export const sqlReader: Target = {
  bytesMax: 16_384,
  words,
  seeds,
  run(input) {
    const sql = input.toString('utf8')
    const tokens = lex(sql)
    isInOrder(sql, tokens)
    ok(fingerprint(sql).length <= 500, 'a fingerprint is short')
    sleepOf(sql)
    const reading = readStatement(sql)
    if (reading.ok) {
      const parameters = new Map([
        ['p', "a'b"],
        ['n', '7'],
        ['m', "['x']"],
      ])
      for (const engine of ['duckdb', 'clickhouse'] as const)
        bindParameters(reading.value, parameters, engine)
    }
    const parsed = parseStatement(sql)
    if (!parsed.ok) {
      ok(parsed.error.code > 0 && parsed.error.message !== '', 'an error has a code and a text')
      return
    }
    const printed = explainSyntax(parsed.value.query).join('\n')
    // A tree may be deeper than its text: operators nest without brackets.
    const again = parseStatement(printed)
    if (!again.ok && /too deep|at most|nest|complex/i.test(again.error.message)) return
    ok(again.ok, `what is printed is read: ${again.ok ? '' : again.error.message}\n${printed}`)
    same(plain(again.value.query), plain(parsed.value.query), 'the same tree')
  },
}

function isInOrder(sql: string, tokens: readonly Token[]): void {
  let at = 0
  for (const { start, end, kind } of tokens) {
    ok(start >= at && end > start && end <= sql.length, 'tokens are in order')
    if (kind === 'string' || kind === 'quoted') readQuoted(sql.slice(start, end))
    at = end
  }
}

/** Without what the text decides: positions, numbers, depths. */
function plain(tree: unknown): string {
  return JSON.stringify(tree, (key, value: unknown) => {
    if (key === 'at' || key === 'depth' || key === 'number') return undefined
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
    return Object.fromEntries(Object.entries(value).sort(([x], [y]) => (x < y ? -1 : 1)))
  })
}

export const sqlPrinter: Target = {
  bytesMax: 8_192,
  words,
  seeds,
  run(input) {
    const sql = input.toString('utf8')
    const printed = translate(sql, { catalogue, database: 'chain' })
    if (!printed.ok)
      ok(printed.error.code > 0 && printed.error.message !== '', 'an error has a text')
    else ok(printed.value.sql.length < 400 * (sql.length + 64), 'what is printed is bounded')
  },
}

const facts = {
  version: '18.16.1',
  hasDateTime64: true,
  hasBool: false,
  settings: new Set<string>(),
}
const hidden = new Set<string>([...hiddenTables, ...tableNames.map((name) => `_${name}`)])
const caller = { subscription: "sub-'1", facts, database: 'chain' } as const

export const sqlGate: Target = {
  bytesMax: 8_192,
  words,
  seeds,
  run(input) {
    const sql = input.toString('utf8')
    const admitted = admit(sql, caller)
    if (!admitted.ok) return
    const tokens = lex(admitted.value)
    ok(
      !tokens.some(({ kind }) => kind === 'comment' || kind === 'broken' || kind === 'unknown'),
      'plain',
    )
    for (const { kind, start, end } of lex(sql)) {
      const written = sql.slice(start, end)
      const name = kind === 'quoted' ? readQuoted(written) : kind === 'word' ? written : null
      ok(name === null || !hidden.has(name), 'no table of ours is named')
    }
  },
}

/** The type of a parameter, a zero byte, and its value. */
export const sqlValue: Target = {
  words: [
    'Array(',
    'Nullable(',
    'Tuple(',
    'Map(',
    'Decimal(',
    'DateTime64(',
    "Enum8('a' = 1)",
    ')',
    '\0',
  ],
  seeds: () =>
    [
      "Array(String)\0['a','b']",
      'Nullable(UInt64)\0\\N',
      "Map(String, Int8)\0{'a':1}",
      'Date\x002024-01-01',
    ].map(text),
  run(input) {
    const [name = '', value = ''] = input.toString('utf8').split('\0', 2)
    const type = parseType(name)
    if (type !== null) parseValue(type, value)
  },
}
