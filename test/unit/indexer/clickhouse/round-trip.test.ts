// Random syntax trees, printed and parsed again, and random texts: the parser reads what the printer
// writes, and ends every other text with an error that has a position. Seeded: each run is the same.
import { describe, expect, test } from 'vitest'
import type {
  Call,
  Expr,
  From,
  Query,
  Select,
  Window,
} from '../../../../src/indexer/clickhouse/sql/ast.ts'
import { explainSyntax } from '../../../../src/indexer/clickhouse/sql/explain-syntax.ts'
import { parseStatement } from '../../../../src/indexer/clickhouse/sql/parse-select.ts'
import { caseCount } from '../../../testkit/case-count.ts'

const cases = caseCount(400, 1_000)

/** A small generator of random numbers (mulberry32), so that a case is found again by its seed. */
class Chance {
  #state: number

  constructor(seed: number) {
    this.#state = seed
  }

  below(n: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % n
  }

  is(percent: number): boolean {
    return this.below(100) < percent
  }

  one<T>(all: readonly T[]): T {
    return all[this.below(all.length)]!
  }

  some<T>(least: number, most: number, make: () => T): T[] {
    return Array.from({ length: least + this.below(most - least + 1) }, make)
  }

  maybe<T>(percent: number, make: () => T): T | null {
    return this.is(percent) ? make() : null
  }
}

const names = [
  'a',
  'b1',
  '_c',
  'Slot',
  'from',
  'select',
  'x y',
  'ü',
  'd`q',
  'e"q',
  'date',
  'null',
  'final',
]
const functionsOf = [
  'plus',
  'count',
  'sumIf',
  'and',
  'not',
  'in',
  'if',
  'like',
  'CAST',
  'tuple',
  'array',
  'toDate',
]
const texts = ['', "it's", 'a\\b', '\n\t', 'ü€', '--', '/*', '{p:T}', '`']

const make = (chance: Chance) => {
  const name = () => chance.one(names)
  const expr = (depth: number): Expr => {
    const kind = depth <= 0 ? chance.below(3) : chance.below(9)
    if (kind === 0) return literal()
    if (kind <= 2) return { kind: 'column', at: 0, path: chance.some(1, 3, name) }
    if (kind === 3 && depth > 1)
      return { kind: 'subquery', at: 0, number: 0, query: query(depth - 2) }
    if (kind === 4) return { kind: 'alias', at: 0, of: expr(depth - 1), name: name() }
    return call(depth)
  }
  const literal = (): Expr =>
    chance.one<() => Expr>([
      () => ({ kind: 'literal', at: 0, type: 'String', text: chance.one(texts) }),
      () => ({ kind: 'literal', at: 0, type: 'UInt8', text: String(chance.below(256)) }),
      () => ({ kind: 'literal', at: 0, type: 'Int16', text: String(-200 - chance.below(9_000)) }),
      () => ({ kind: 'literal', at: 0, type: 'UInt64', text: '18446744073709551615' }),
      () => ({
        kind: 'literal',
        at: 0,
        type: 'Float64',
        text: chance.one(['1.5', '0.001', '2', '-0.5', '1e+100']),
      }),
      () => ({ kind: 'literal', at: 0, type: 'Bool', text: chance.one(['true', 'false']) }),
      () => ({ kind: 'literal', at: 0, type: 'Nullable(Nothing)', text: 'NULL' }),
    ])()
  const call = (depth: number): Call => {
    const isLambda = chance.is(10)
    const args = isLambda
      ? [lambda(depth - 1), expr(depth - 1)]
      : chance.some(0, 3, () => expr(depth - 1))
    const own = isLambda ? 'arrayMap' : chance.one(functionsOf)
    const plain =
      own === 'tuple' || own === 'array' || own === 'not' || own === 'CAST' || own === 'toDate'
    return {
      kind: 'call',
      at: 0,
      name: own,
      args:
        own === 'CAST'
          ? [expr(depth - 1), { kind: 'literal', at: 0, type: 'String', text: 'T' }]
          : own === 'not'
            ? [expr(depth - 1)]
            : args,
      params: plain ? null : chance.maybe(10, () => chance.some(1, 2, literal)),
      isDistinct: !plain && args.length > 0 && chance.is(10),
      filter: plain ? null : chance.maybe(10, () => expr(depth - 1)),
      over: plain ? null : chance.maybe(10, () => (chance.is(30) ? 'w' : window(depth - 1))),
      depth: 0,
    }
  }
  const lambda = (depth: number): Expr => ({
    kind: 'lambda',
    at: 0,
    names: chance.some(1, 2, name),
    body: expr(depth),
  })
  const order = (depth: number) => ({
    by: expr(depth),
    isDescending: chance.is(50),
    nulls: chance.one(['FIRST', 'LAST', null] as const),
  })
  const window = (depth: number): Window => ({
    base: chance.maybe(20, () => 'w'),
    partition: chance.some(0, 2, () => expr(depth)),
    order: chance.some(0, 2, () => order(depth)),
    frame: chance.maybe(30, () => ({
      unit: chance.one(['ROWS', 'RANGE', 'GROUPS'] as const),
      begin: { side: 'PRECEDING' as const, count: chance.maybe(50, literal) },
      end: chance.maybe(50, () => ({
        side: chance.one(['FOLLOWING', 'CURRENT ROW'] as const),
        count: null,
      })),
    })),
  })
  const from = (depth: number): From => {
    const kind = depth <= 0 ? 0 : chance.below(6)
    const alias = chance.maybe(50, name)
    if (kind === 1) return { kind: 'derived', at: 0, query: query(depth - 1), alias }
    if (kind === 2)
      return {
        kind: 'function',
        at: 0,
        name: 'numbers',
        args: chance.some(0, 2, () => expr(0)),
        alias,
        columns: alias === null ? [] : chance.some(0, 2, name),
      }
    if (kind === 3)
      return {
        kind: 'array-join',
        at: 0,
        of: from(depth - 1),
        isLeft: chance.is(50),
        items: chance.some(1, 2, () => expr(1)),
      }
    if (kind >= 4) return join(depth)
    return { kind: 'table', at: 0, path: chance.some(1, 2, name), alias }
  }
  const join = (depth: number): From => {
    const isOn = chance.is(50)
    const plain = {
      kind: 'join' as const,
      at: 0,
      left: from(depth - 1),
      right: from(depth - 1),
    }
    if (chance.is(20)) return { ...plain, side: 'CROSS', strictness: 'ALL', on: null, using: null }
    return {
      ...plain,
      side: chance.one(['INNER', 'LEFT', 'RIGHT', 'FULL'] as const),
      strictness: chance.one(['ALL', 'ANY', 'SEMI', 'ANTI', 'ASOF'] as const),
      on: isOn ? expr(1) : null,
      using: isOn ? null : chance.some(1, 2, name),
    }
  }
  const groupItems = () => {
    const list = () => chance.some(1, 2, () => expr(1))
    if (chance.is(10)) return { items: 'ALL' as const, sets: null }
    return chance.is(10)
      ? { items: [], sets: chance.some(1, 3, list) }
      : { items: list(), sets: null }
  }
  const select = (depth: number): Select => {
    const isDistinct = chance.is(20)
    return {
      kind: 'select',
      at: 0,
      isDistinct,
      distinctOn: isDistinct && chance.is(50) ? chance.some(1, 2, () => expr(1)) : [],
      items: chance.some(1, 3, () => (chance.is(10) ? star() : expr(depth))),
      from: chance.maybe(70, () => from(depth)),
      prewhere: chance.maybe(10, () => expr(depth)),
      where: chance.maybe(40, () => expr(depth)),
      group: chance.maybe(30, () => ({
        ...groupItems(),
        modifier: chance.one(['ROLLUP', 'CUBE', null, null] as const),
        hasTotals: chance.is(20),
      })),
      having: chance.maybe(20, () => expr(depth)),
      windows: chance.maybe(10, () => [{ name: 'w', window: window(1) }]) ?? [],
      qualify: chance.maybe(10, () => expr(1)),
      order: chance.is(10) ? 'ALL' : chance.some(0, 2, () => order(depth)),
      limitBy: chance.maybe(20, () => ({
        count: literal(),
        offset: chance.maybe(30, literal),
        by: chance.some(1, 2, () => expr(1)),
      })),
      limit: chance.maybe(30, () =>
        chance.is(10)
          ? { count: null, offset: literal(), hasTies: false }
          : { count: literal(), offset: chance.maybe(30, literal), hasTies: chance.is(20) },
      ),
    }
  }
  const star = (): Expr => ({
    kind: 'star',
    at: 0,
    ...(chance.is(20)
      ? { of: [], pattern: chance.one(texts) }
      : { of: chance.is(30) ? [name()] : [], pattern: null }),
    except: chance.is(30) ? chance.some(1, 2, name) : [],
    replace: chance.is(20) ? [{ kind: 'alias', at: 0, of: expr(1), name: name() }] : [],
  })
  const query = (depth: number): Query => ({
    with: chance.is(20)
      ? chance.some(1, 2, () => ({
          name: name(),
          of: chance.is(50) ? query(depth - 1) : expr(1),
          isRecursive: false,
        }))
      : [],
    body:
      depth > 0 && chance.is(15)
        ? {
            kind: 'set',
            operator: chance.one(['UNION ALL', 'UNION DISTINCT', 'INTERSECT', 'EXCEPT']),
            left: query(depth - 1),
            right: query(depth - 1),
          }
        : select(depth),
  })
  return query
}

/** The tree as a text, without positions and numbers, which the text decides; keys in order. */
function plain(tree: unknown): string {
  return JSON.stringify(tree, (key, value: unknown) => {
    if (key === 'at' || key === 'depth' || key === 'number') return undefined
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
    return Object.fromEntries(Object.entries(value).sort(([x], [y]) => (x < y ? -1 : 1)))
  })
}

describe('a list of names', () => {
  const names = Array(150_000).fill('a').join()
  const replaced = Array(150_000).fill('1 AS a').join()
  test.each([
    ['EXCEPT', `SELECT * EXCEPT (${names}) FROM t`],
    ['REPLACE', `SELECT * REPLACE (${replaced}) FROM t`],
    ['an alias', `SELECT 1 FROM f(1) AS x (${names})`],
  ])('of %s may be as long as a query', (_, text) => {
    expect(parseStatement(text).ok).toBe(true)
  })
})

describe('a printed tree', () => {
  test(`parses back to itself, ${cases} times`, () => {
    for (let seed = 0; seed < cases; seed++) {
      const tree = make(new Chance(seed))(seed % 4 === 0 ? 3 : 2)
      const text = explainSyntax(tree).join('\n')
      const parsed = parseStatement(text)
      const message = parsed.ok ? '' : parsed.error.message
      const isSame = parsed.ok && plain(parsed.value.query) === plain(tree)
      if (!isSame) expect.fail(`seed ${seed}: ${message}\n${text}`)
    }
  })
})

test('a number that is too large is inf, as ClickHouse writes it', () => {
  for (const number of ['1e400', '-1e400', '-inf', '-18446744073709551615 + inf']) {
    const parsed = parseStatement(`SELECT ${number}`)
    if (!parsed.ok) throw new Error(parsed.error.message)
    const text = explainSyntax(parsed.value.query).join('\n')
    expect(text).toContain('inf')
    expect(text).not.toContain('Inf')
    const again = parseStatement(text)
    expect(again.ok && plain(again.value.query)).toBe(plain(parsed.value.query))
  }
})

describe('a text that is no query', () => {
  const words =
    'SELECT FROM WHERE ( ) [ ] { } , . :: -> ? : * + - / || = < > a b1 `x` "y" \'t\' 1 0x 1e5 CASE WHEN END INTERVAL DAY NOT IN WITH AS OVER LIMIT BY UNION ALL JOIN ON USING ARRAY ORDER GROUP -- /* # @ \\ ; ü \u0000 BETWEEN AND'.split(
      ' ',
    )

  test.each([
    [
      'words of the grammar',
      (chance: Chance) => chance.some(1, 40, () => chance.one(words)).join(' '),
    ],
    [
      'bytes',
      (chance: Chance) =>
        Buffer.from(chance.some(1, 200, () => chance.below(256))).toString('latin1'),
    ],
    [
      'a query with a part cut out',
      (chance: Chance) => {
        const text = explainSyntax(make(chance)(2)).join('\n')
        const from = chance.below(text.length)
        return text.slice(0, from) + text.slice(from + 1 + chance.below(20))
      },
    ],
  ])('%s: a tree, or an error with its place', (_, textOf) => {
    for (let seed = 0; seed < cases; seed++) {
      const text = textOf(new Chance(seed))
      const parsed = parseStatement(text)
      if (parsed.ok) continue
      expect(parsed.error.code, text).toBeGreaterThan(0)
      if (parsed.error.message.startsWith('Syntax error:'))
        expect(parsed.error.message, text).toMatch(/failed at position \d+/)
    }
  })
})
