import { describe, expect, test } from 'vitest'
import { group, integer, many, named, text } from '../../../../src/base/fields.ts'
import {
  buildValues,
  type GivenKeys,
  leaves,
  locate,
  readFileTree,
  unknownKey,
} from '../../../../src/operator/config/load.ts'

const count = (initial: number) => integer({ initial, min: 0, max: 1000, doc: 'A count.' })
const plan = group('A plan.', { rate: count(1), burst: count(2) })
const fields = {
  plans: named('Plans.', 'plan', plan, { standard: { rate: 100, burst: 200 } }),
  upstreams: named(
    'Sets.',
    'set',
    group('A set.', {
      nodes: many(
        'Nodes.',
        group('A node.', {
          rpc: text({ initial: '', doc: 'Where.' }),
          xToken: text({
            initial: '',
            doc: 'Secret.',
            secret: true,
            check: () => 'must be better',
          }),
        }),
      ),
    }),
  ),
}

function read(raw: unknown) {
  const given: GivenKeys = new Map()
  const problems: string[] = []
  readFileTree(fields, raw, { origin: 'file', given, problems, lineOf: () => 7 })
  const values = buildValues(fields, given, problems) as Record<string, Record<string, unknown>>
  return { values, problems }
}

describe('names and lists', () => {
  test('a configured name starts from the built-in one, a new one from the defaults', () => {
    const { values } = read({ plans: { standard: { rate: 5 }, gold: { burst: 9 } } })
    expect(values.plans).toEqual({ standard: { rate: 5, burst: 200 }, gold: { rate: 1, burst: 9 } })
  })

  test('a name or entry without keys is still one', () => {
    const { values } = read({ plans: { gold: {}, iron: null }, upstreams: { m: { nodes: [{}] } } })
    expect(Object.keys(values.plans ?? {})).toEqual(['standard', 'gold', 'iron'])
    expect(values.upstreams).toEqual({ m: { nodes: [{ rpc: '', xToken: '' }] } })
  })

  test('lists keep their order', () => {
    const nodes = Array.from({ length: 12 }, (_, n) => ({ rpc: `n${n}` }))
    const { values } = read({ upstreams: { main: { nodes } } })
    const read12 = (values.upstreams as { main: { nodes: { rpc: string }[] } }).main.nodes
    expect(read12.map((node) => node.rpc)).toEqual(nodes.map((node) => node.rpc))
  })

  test('a bad name, a value that is no list and a list that is too long are problems', () => {
    expect(read({ plans: { 'a.b': {} } }).problems[0]).toContain('a name is 1 to 32')
    expect(read({ upstreams: { m: { nodes: 'x' } } }).problems[0]).toContain('must be a list')
    const nodes = Array.from({ length: 101 }, () => ({}))
    expect(read({ upstreams: { m: { nodes } } }).problems[0]).toContain('at most 100')
  })

  test('a refused secret is not shown', () => {
    const { problems } = read({ upstreams: { m: { nodes: [{ xToken: 'hush' }] } } })
    expect(problems).toEqual(['file: line 7: upstreams.m.nodes.0.xToken must be better'])
  })

  test('flags and variables reach into names and lists', () => {
    const found = locate(fields, ['upstreams', 'main', 'nodes', '3', 'x-token'])
    expect(found).toMatchObject({ kind: 'field', key: 'upstreams.main.nodes.3.xToken' })
    expect(locate(fields, ['upstreams', 'main', 'nodes', 'x', 'rpc']).kind).toBe('unknown')
    expect(locate(fields, ['plans', 'gold', 'rate', 'more']).kind).toBe('unknown')
    expect(locate(fields, ['plans']).kind).toBe('branch')
  })

  test('the nearest key carries the name that the operator wrote', () => {
    expect(unknownKey(fields, 'plans.gold.rat')).toContain('plans.gold.rate')
    expect([...leaves(fields)].map((leaf) => leaf.key)).toContain('upstreams.<set>.nodes.<n>.rpc')
  })
})
