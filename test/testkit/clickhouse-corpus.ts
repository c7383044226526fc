// Statements for a ClickHouse server: those that try to get around the gate, and plain ones whose
// results must be the server's own.

/** Signs that some server takes for the beginning of a comment or a string. */
export const hidingSigns: readonly string[] = [
  ...['//', '#', '# ', '#!', '--', '/*', '$$', '$ x$', '$a$', '\\', '\\x27', '‘', '’'],
]

/** Each tries to read `target`, a table that is not the caller's. */
export function hostileStatements(target: string): string[] {
  const [database = '', table = ''] = target.split('.')
  const open = ["'", '"', '`']
  const hidden = hidingSigns.flatMap((sign) =>
    open.flatMap((quote) => [
      `SELECT * ${sign}${quote}\nFROM ${target} ${sign}${quote}`,
      `SELECT 1 AS x ${sign}${quote}\nUNION ALL SELECT * FROM ${target} ${sign}${quote}`,
      `SELECT ${sign}${quote}${sign}, t.* FROM ${target} AS t WHERE 1 OR ${sign}${quote}${sign} = ''`,
      `SELECT count() FROM blocks WHERE slot IN (${sign}${quote}\nSELECT * FROM ${target} ${sign}${quote})`,
      `SELECT ${quote}a\\${quote}, (SELECT count() FROM ${target}) ${sign} ${quote}`,
    ]),
  )
  return [
    ...hidden,
    `SELECT * FROM ${target}`,
    `SELECT * FROM\u00a0${target}`,
    `SELECT 1FROM ${target}`,
    `SELECT * FROM "${database}"."${table}"`,
    `SELECT * FROM \`${database}\`.\`${[...table].map(hexEscape).join('')}\``,
    `SELECT * FROM (${target})`,
    `SELECT * FROM blocks, ${target}`,
    `SELECT * FROM blocks CROSS JOIN ${target}`,
    `SELECT ${table} AS ${table}, 1 AS ${table} FROM ${table}`,
    `SELECT 1 AS ${table}, x.* FROM ${table} AS x`,
    `SELECT (SELECT 1 AS ${table}) AS a, b.* FROM ${table} AS b`,
    `WITH (1, 2) AS ${table} SELECT * FROM ${table}`,
    `WITH ${table} AS (SELECT * FROM ${table}) SELECT * FROM ${table}`,
    `SELECT * FROM (WITH ${table} AS (SELECT 1) SELECT 1) AS a, ${table}`,
    `SELECT toString(1) IN ${target}`,
    `SELECT in(toString(1), ${target})`,
    `SELECT * FROM merge('${database}', '^${table}$')`,
    `SELECT * FROM remote('127.0.0.1', ${target})`,
    `SELECT joinGet('${target}', 'x', 1)`,
    `DESCRIBE ${target}`,
    `EXPLAIN SELECT * FROM ${target}`,
    `SELECT 1; SELECT * FROM ${target}`,
    `SELECT * FROM ${target} FORMAT TabSeparated SETTINGS readonly = 0`,
    `SELECT * FROM (SELECT * SETTINGS readonly == 0), ${target}`,
  ]
}

/** Signs of quotes, comments and heredocs, of which random statements are made. */
export const hostileFragments: readonly string[] = [
  ...["'", '"', '`', "\\'", '\\', '--', '/*', '*/', '//', '#', '# ', '$$', '$ x$', '\n', ' ', '\0'],
  ...['\u00a0', '‘', '’', '(', ')', ', ', ' AS ', " = ''", ' WHERE 1 OR '],
]

function hexEscape(char: string): string {
  return `\\x${char.charCodeAt(0).toString(16)}`
}

/** Without ORDER BY where there is one row; each gives the same on every run. */
export const plainStatements: readonly string[] = [
  'SELECT 1',
  'SELECT 1 + 2 * 3 - -4 / 5 % 6, 7 - 8, - 9, 1e3, 1.5e-3, .5, 2., 0x1F, 1E+2',
  "SELECT 'a', 'it''s', 'it\\'s', '', ' ', 'é😀', '--', '/* x */', '//', '$$', '#', ';', '`', '\"'",
  "SELECT 'a\\tb', 'a\\nb', '\\\\d+', '\\\\', '\\'', '\\\"', '\\0', '\\b\\f\\r', '\\x41\\x42', '\\xe2\\x82\\xac'",
  "SELECT length('a\\tb'), length('\\\\'), hex('\\x07\\x0b\\x1b\\x7f\\x01'), hex('\\a\\v')",
  "SELECT extract('slot=12', '(\\\\d+)'), match('a.b', 'a\\\\.b'), 'a%' LIKE 'a\\\\%', like('ab', 'a_')",
  'SELECT 1 = 1, 1 == 1, 1 != 2, 1 <> 2, 1 < 2, 1 <= 2, 2 > 1, 2 >= 1, NOT 1, 1 AND 0 OR 1',
  "SELECT 'a' || 'b', concat('a', 'b')",
  "SELECT 1 ? 'yes' : 'no', if(0, 1, 2), CASE WHEN 1 THEN 'a' ELSE 'b' END, CASE 2 WHEN 2 THEN 3 END",
  'SELECT [1, 2, 3][2], (1, 2).1, ((1, (2, 3)).2).1, [(1, 2)][1].2, tuple(1), array()',
  'SELECT arrayMap(x -> x * 2, [1, 2]), arrayFilter((x, y) -> x>y, [1, 2], [0, 3]), arrayJoin([3, 4])',
  "SELECT toUInt8(7), CAST(5 AS String), CAST('6', 'UInt8'), toString(1.50), toDate('2026-01-02')",
  "SELECT INTERVAL 1 DAY + toDate('2026-01-02'), toDate('2026-03-01') - INTERVAL 1 MONTH",
  'SELECT NULL, isNull(NULL), 1 IS NOT NULL, NULL IS NULL, ifNull(NULL, 3)',
  'SELECT 1 BETWEEN 0 AND 2, 2 IN (1, 2), 3 NOT IN (1, 2), (1, 2) IN ((1, 2))',
  'SELECT `a b`, "c""d", e FROM (SELECT 1 AS `a b`, 2 AS "c""d", 3 e)',
  'SELECT/**/1/* a /* b */, 2--c\n, 3 -- d',
  'SELECT\t1\r\n,\f2\v',
  'select count(*) from blocks',
  'SELECT count() FROM chain.transactions WHERE fee >= 5000',
  'SELECT count() FROM `chain`.`transactions` AS `t` WHERE `t`.`fee`>5000',
  'SELECT * FROM blocks ORDER BY slot DESC LIMIT 3',
  'SELECT slot s, tx_count AS `n` FROM blocks b ORDER BY b.slot LIMIT 2, 3',
  'SELECT b.slot, t.n FROM blocks AS b ANY INNER JOIN (SELECT slot, count() AS n FROM transactions GROUP BY slot) AS t USING (slot) ORDER BY slot LIMIT 4',
  'SELECT slot, n FROM blocks ALL LEFT JOIN (SELECT slot, count() AS n FROM transactions GROUP BY slot) USING slot ORDER BY slot, n LIMIT 4',
  'SELECT slot FROM blocks WHERE slot IN (SELECT slot FROM transactions WHERE idx = 1) ORDER BY slot LIMIT 4',
  'WITH 3 AS three SELECT three + 1',
  'WITH (SELECT max(slot) FROM blocks) AS top SELECT count() FROM blocks WHERE slot = top',
  'WITH (1, 2) AS ids SELECT countIf(slot IN ids) FROM blocks',
  'SELECT quantileExact(0.5)(fee), uniqExact(fee_payer), groupArray(2)(idx), argMax(slot, fee) FROM (SELECT * FROM transactions ORDER BY slot, idx)',
  'SELECT version, count() AS n FROM transactions GROUP BY version HAVING n > 0 ORDER BY version',
  'SELECT version, count() FROM transactions GROUP BY version WITH TOTALS ORDER BY version',
  "SELECT err, count() FROM transactions WHERE err != '' GROUP BY err ORDER BY err",
  'SELECT a, count() FROM instructions ARRAY JOIN accounts AS a GROUP BY a ORDER BY count() DESC, a LIMIT 3',
  'SELECT slot, idx FROM transactions ORDER BY fee DESC, slot, idx LIMIT 1 BY slot LIMIT 5',
  // Each engine runs the parts of a union side by side: without an order, either may come first.
  'SELECT slot FROM (SELECT slot FROM blocks WHERE slot < 390000003 UNION ALL SELECT toUInt64(1) AS slot) ORDER BY slot',
  'SELECT DISTINCT version FROM transactions ORDER BY version',
  'SELECT substring(fee_payer, 1, 4), lower(fee_payer) FROM transactions ORDER BY slot, idx LIMIT 2',
  'SELECT toStartOfMinute(block_time) AS m, sum(fee) FROM transactions GROUP BY m ORDER BY m',
  'SELECT max(x) FROM (SELECT slot % 7 AS x FROM blocks)',
  "SELECT splitByChar(',', 'a,b'), arrayStringConcat(['a', 'b'], '\\n'), replaceAll('a-b', '-', '\\t')",
]
