// The query gate: a query reaches only our tables on a ClickHouse server.
import { describe, expect, test } from 'vitest'
import { admit } from '../../../../src/indexer/clickhouse-server/gate.ts'

const facts = {
  version: '18.16.1',
  hasDateTime64: true,
  hasBool: false,
  settings: new Set<string>(),
}
const ask = (text: string, subscription = 'sub-1') =>
  admit(text, { subscription, facts, database: 'chain' })

const passing = [
  'SELECT 1 WHERE 1 IN system.one',
  'SELECT number FROM system.numbers LIMIT 3',
  'SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES',
  "SELECT name FROM system.functions WHERE name = 'sum'",
  'SELECT sum(number) FROM numbers(10) AS n',
  'SELECT sum(number) FROM numbers(5, 10)',
  'SELECT 1',
  'SELECT count() FROM transactions',
  'SELECT count() FROM chain.transactions AS t WHERE t.slot > 5',
  'SELECT t.slot FROM transactions t JOIN blocks b ON t.slot = b.slot',
  'SELECT * FROM blocks, transactions',
  'SELECT * FROM (SELECT slot FROM blocks) AS x JOIN (SELECT slot FROM transactions) AS y USING slot',
  'WITH big AS (SELECT slot FROM blocks) SELECT * FROM big',
  'WITH a AS (SELECT slot FROM blocks), b AS (SELECT * FROM a) SELECT * FROM b JOIN a USING (slot)',
  'WITH a AS (SELECT 1 AS x) SELECT * FROM (SELECT * FROM a) UNION ALL SELECT * FROM a',
  'WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r',
  'WITH blocks AS (SELECT 1 AS slot) SELECT slot FROM blocks',
  'WITH (SELECT max(slot) FROM blocks) AS top SELECT * FROM blocks WHERE slot = top',
  'WITH (1, 2) AS ids SELECT * FROM blocks WHERE slot IN ids',
  'SELECT slot FROM blocks WHERE slot IN (SELECT slot FROM transactions)',
  'SELECT slot FROM blocks WHERE slot IN (1, 2) AND slot NOT IN (3)',
  'SELECT a FROM instructions ARRAY JOIN accounts AS a, accounts AS b',
  'SELECT * FROM blocks LEFT ARRAY JOIN [1, 2] AS x WHERE x = 1',
  'SELECT quantile(0.5)(fee), uniqIf(fee_payer, success = 1) FROM transactions',
  'SELECT number FROM numbers(10)',
  'SELECT extract(YEAR FROM block_time) FROM blocks',
  "SELECT 'url(1) FROM system.users; SETTINGS x = 1' FROM blocks",
  'SELECT `slot` FROM `blocks`',
  'SELECT slot FROM blocks UNION ALL SELECT slot FROM transactions ORDER BY slot DESC LIMIT 5',
  'SELECT if(success = 1, fee, 0) AS usage FROM transactions',
  'FROM blocks SELECT slot',
  'EXPLAIN SELECT slot FROM blocks',
  'SELECT max(table) FROM (SELECT 1 AS table)',
  'SELECT x FROM (SELECT 1 AS x) WHERE NOT x IN (2)',
  'WITH (1, 2) AS ids SELECT countIf(slot IN ids) FROM blocks',
  'SELECT slot AS settings, 2 * settings FROM blocks',
  'SELECT `größe` FROM (SELECT 1 AS `größe`)',
  "SELECT 'größe', '‘', '//', '$$', '#' FROM blocks # comment",
]

const refused = [
  'SELECT * FROM system.users',
  'SELECT * FROM system . processes',
  'SELECT * FROM "system"."query_log"',
  'SELECT * FROM `system`.`query_log`',
  'SELECT * FROM information_schema.views',
  'SELECT * FROM system.query_log',
  'SELECT * FROM system.processes',
  'SELECT * FROM numbers((SELECT max(elapsed) FROM system.processes))',
  'SELECT * FROM other.secrets',
  'SELECT * FROM secrets',
  'SELECT * FROM _usage',
  'SELECT * FROM chain._usage',
  'SELECT * FROM chain._transactions',
  'SELECT * FROM chain.`_usage`',
  'WITH _usage AS (SELECT 1) SELECT * FROM _usage',
  'SELECT * FROM (SELECT 1) SAMPLE 1/10 OFFSET 1/2, system.query_log',
  'SELECT * FROM transactions SAMPLE 1/10 OFFSET 1/2, _usage',
  'SELECT EXISTS (_usage)',
  'SELECT 1 IN [`_usage`]',
  'SELECT * FROM blocks, system.users',
  'SELECT * FROM blocks JOIN system.users ON 1 = 1',
  'SELECT * FROM blocks JOIN transactions USING (slot), system.users',
  'SELECT * FROM blocks JOIN transactions ON 1 = 1, system.users',
  'SELECT * FROM (system.users)',
  'SELECT * FROM ((system.users))',
  'SELECT * FROM (blocks JOIN system.users ON 1 = 1)',
  'SELECT (SELECT max(name) FROM system.users)',
  'SELECT 1 WHERE 1 IN system.processes',
  'SELECT 1 WHERE 1 IN (system.processes)',
  'SELECT 1 WHERE 1 IN ((system.processes))',
  "SELECT 'x' IN (other.secrets AS t)",
  "SELECT 'x' IN ((other.secrets) AS t)",
  "SELECT 'x' NOT IN ((secrets AS t))",
  'SELECT 1 WHERE 1 GLOBAL NOT IN _usage',
  'SELECT in(1, system.one)',
  'SELECT `in`(1, system.one)',
  'SELECT 1 WHERE NOT in(1, system.one)',
  'SELECT globalIn(1, system.one)',
  'SELECT substring(SELECT name FROM system.users)',
  "SELECT * FROM url('http://10.0.0.1/', CSV, 'a String')",
  "SELECT * FROM file('/etc/passwd', CSV, 'a String')",
  "SELECT * FROM `file`('/etc/passwd', CSV, 'a String')",
  "SELECT * FROM remote('127.0.0.1', system.one)",
  "SELECT * FROM ReMoTe ( '127.0.0.1', system.one)",
  "SELECT 1 WHERE 1 IN remote('127.0.0.1', system.one)",
  "SELECT * FROM mysql('h:1', 'd', 't', 'u', 'p')",
  "SELECT * FROM s3('http://x/y')",
  "SELECT * FROM merge('chain', '^_')",
  'SELECT * FROM view(SELECT 1)',
  "SELECT * FROM newTableFunction('x')",
  "SELECT * FROM cluster('c', system.one)",
  "SELECT dictGetString('d', 'a', toUInt64(1))",
  "SELECT joinGet('chain._usage', 'at', 1)",
  "SELECT hasColumnInTable('system', 'users', 'name')",
  'SELECT hostName()',
  'SELECT fqdn()',
  "SELECT file('/etc/passwd')",
  "SELECT 1 INTO OUTFILE '/tmp/x'",
  'SELECT 1 SETTINGS readonly = 0',
  'SELECT * FROM (SELECT 1 SETTINGS max_execution_time = 0)',
  'SELECT 1; SELECT 2',
  'INSERT INTO blocks VALUES (1)',
  'DROP TABLE blocks',
  'KILL QUERY WHERE 1',
  'SHOW TABLES',
  'DESCRIBE system.users',
  'DESCRIBE TABLE system.users',
  // Newer servers treat these characters as quotes, which would hide a string's end from us.
  "SELECT ‘'’, name FROM system.users --'",
  'SELECT "a\\"b" FROM system.users',
  "SELECT 'open",
  'SELECT /* open',
  // Comments and strings of the server that an earlier lexer missed.
  "SELECT subscription, query_id, code //'\nFROM chain._usage //'",
  "SELECT name //'\nFROM system.processes //'",
  'SELECT 1 // 2',
  "SELECT $ x$'$ x$, query_id FROM chain._usage WHERE 1 OR $ x$'$ x$ = ''",
  'SELECT $$x$$',
  'SELECT 1 #x',
  'SELECT 1 \\G',
  'SELECT 1FROM system.users',
  'SELECT @@version',
  // A name that the query defined as something else is not a table.
  'SELECT 1 AS secrets FROM secrets',
  'SELECT * FROM secrets AS secrets',
  'SELECT (SELECT 1 AS secrets) FROM secrets',
  'SELECT count() FROM blocks AS secrets, secrets',
  'WITH (1, 2) AS secrets SELECT * FROM secrets',
  'WITH secrets AS (SELECT * FROM secrets) SELECT 1',
  'SELECT * FROM (WITH secrets AS (SELECT 1) SELECT * FROM secrets) AS a, secrets',
  'SELECT (WITH secrets AS (SELECT 1) SELECT 1) FROM secrets',
  'WITH recursive AS (SELECT 1), secrets AS (SELECT * FROM secrets) SELECT * FROM secrets',
  'WITH t AS (SELECT 1 AS secrets) SELECT * FROM secrets',
  'WITH (1, 2) AS secrets SELECT 1 UNION ALL SELECT 1 IN secrets',
  'WITH (1, 2) AS secrets SELECT (SELECT 1 IN secrets)',
  'SELECT (1, 2) AS secrets, 1 IN secrets',
  'SELECT cast(x AS (secrets)) FROM secrets',
  // An alias of WITH that would select the rows of every customer.
  "WITH 'me' AS subscription SELECT * FROM usage",
  "WITH 'me' AS `subscription` SELECT * FROM chain.usage",
  "WITH t AS (SELECT 'me' AS Subscription) SELECT * FROM t, usage",
  // Settings, however they are written.
  'SELECT * SETTINGS readonly = 0',
  'SELECT 1 SETTINGS readonly == 0',
  'SELECT 1 SETTINGS readonly',
  'SELECT 1 SETTINGS `readonly` = 0',
  // Names quoted to look like others.
  'SELECT * FROM `\\x5fusage`',
  'SELECT * FROM chain.`_us\\x61ge`',
  'SELECT `f\\x69le`(1)',
  'SELECT * FROM chain._marks',
  'SELECT * FROM chain._lease',
  'SELECT system.users.name',
  'SELECT 1 LIMIT system.one',
]

describe('the ClickHouse query gate', () => {
  test.each(passing)('lets %s through', (text) => {
    expect(ask(text)).toMatchObject({ ok: true })
  })

  test.each(refused)('refuses %s', (text) => {
    expect(ask(text)).toMatchObject({ ok: false })
  })

  test('changes only table names and whitespace of a query over plain tables', () => {
    expect(ask('SELECT slot FROM default.blocks AS b WHERE b.slot IN (1, 2)')).toEqual({
      ok: true,
      value: 'SELECT slot FROM chain._blocks AS b FINAL WHERE b . slot IN ( 1 , 2 )',
    })
    for (const written of ['blocks', 'blocks FINAL', 'chain.blocks AS blocks FINAL'])
      expect(ask(`SELECT slot FROM ${written}`)).toMatchObject({
        value: 'SELECT slot FROM chain._blocks AS blocks FINAL',
      })
    expect(ask('SELECT 1 FROM (SELECT 1) AS a JOIN blocks b ON 1 = 1')).toMatchObject({
      value: 'SELECT 1 FROM ( SELECT 1 ) AS a JOIN chain.blocks AS b ON 1 = 1',
    })
  })

  test('leaves a common table unchanged, also where it has the name of a table', () => {
    expect(ask('WITH blocks AS (SELECT 1 AS slot) SELECT slot FROM blocks AS b')).toMatchObject({
      value: 'WITH blocks AS ( SELECT 1 AS slot ) SELECT slot FROM blocks AS b',
    })
  })

  test('names the symbol that it refuses', () => {
    for (const [text, sign] of [
      ['SELECT 4 // 2', 'the sign //'],
      ['SELECT $$x$$', 'the sign $'],
      ['SELECT 1 #x', 'the sign #'],
      ['SELECT 1 \\G', 'the sign \\'],
      ['SELECT 1x', 'a number that runs into a word'],
      ['SELECT {x}', 'the sign {'],
    ] as const)
      expect(ask(text)).toMatchObject({
        error: { code: 62, message: expect.stringContaining(`${sign}`) },
      })
  })

  test('names the table that it does not know, with the query', () => {
    const scope = 'in scope SELECT a FROM nowhere'
    expect(ask('SELECT a\nFROM nowhere')).toMatchObject({
      error: { code: 60, message: `Unknown table expression identifier 'nowhere' ${scope}` },
    })
  })

  test("limits usage to the caller's rows at every position", () => {
    const own = /\(SELECT .*FROM chain\._usage FINAL WHERE subscription = 'sub-1'\)/
    for (const text of [
      'SELECT count() FROM usage',
      'SELECT count() FROM chain.usage u JOIN usage ON 1 = 1',
      'SELECT 1 WHERE 1 IN usage',
      'SELECT 1 FROM blocks WHERE 1 IN (usage)',
      'SELECT * FROM (SELECT * FROM `usage`)',
    ]) {
      const admitted = ask(text)
      expect(admitted.ok && admitted.value, text).toMatch(own)
      expect(admitted.ok && admitted.value.replaceAll(new RegExp(own, 'g'), '')).not.toMatch(
        /chain\.usage|FROM `?usage/,
      )
    }
    const hostile = ask('SELECT * FROM usage', "x' OR '1' = '1")
    expect(hostile.ok && hostile.value).toContain("subscription = 'x\\' OR \\'1\\' = \\'1'")
  })

  test("keeps an alias, and uses the table's name without one", () => {
    expect(ask('SELECT u.rows FROM usage AS u')).toMatchObject({
      value: expect.stringMatching(/\) AS u$/),
    })
    expect(ask('SELECT usage.rows FROM usage WHERE 1')).toMatchObject({
      value: expect.stringMatching(/\) AS usage WHERE 1$/),
    })
  })

  test('answers system.tables and system.columns from the catalogue', () => {
    const admitted = ask(
      'SELECT table, name FROM system.columns WHERE database = currentDatabase()',
    )
    expect(admitted.ok && admitted.value).toContain("('chain', 'blocks', 'slot', 'UInt64', 1,")
    expect(admitted.ok && admitted.value).not.toContain('system.columns')
    expect(admitted.ok && admitted.value).not.toContain("'subscription'")
  })
})
