// Tests what the Solana page concludes from documents: rates, landings, blocks, holes and changes.
import { beforeEach, describe, expect, test } from 'vitest'
import type { Solana, SolanaBlock, SolanaTpu } from '../../../src/client/frames.ts'
import { isSolana } from '../../../src/live/solana-document.ts'
import { type SolanaFacts, solanaState } from '../../../src/live/solana-feed.ts'
import { landingsOf, SolanaStore } from '../../../src/live/solana-store.ts'

let store: SolanaStore
beforeEach(() => {
  store = new SolanaStore()
})

const block = (slot: number): SolanaBlock => ({
  ...{ slot, transactions: 10, votes: 1, failed: 0 },
  ...{ fee_lamports: 50_000, median_fee_lamports: 5_000, cost_units: 1_000 },
})

const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, at) => block(from + at))

function made(second: number, blocks: SolanaBlock[] = [], calls = second * 10): Solana {
  const heads = { processed: 12, confirmed: 10, finalized: 1 }
  const stream = {
    ...{ up: true, slot_ms: 400, age_ms: 100, ...heads, tps: 5, cost_limit: 60_000_000 },
    blocks,
  }
  const counts = { calls, errors: 0, refused: 0, open: null, subscriptions: null, sent: null }
  return {
    at_ms: 1_000_000 + second * 1_000,
    sets: [{ set: 'default', stream, nodes: [] }],
    products: { rpc: counts },
  }
}

const slots = () => store.blocks.map(({ slot }) => slot)
const calls = (document: Solana) => document.products?.rpc?.calls

describe('rates', () => {
  test('are those of the last ten seconds, by the times of the documents', () => {
    for (let second = 0; second <= 30; second++) store.take(made(second, [], second ** 2))
    expect(store.rate(calls)).toBe((30 ** 2 - 20 ** 2) / 10)
    expect(store.rates(calls).at(-1)).toBe(30 ** 2 - 29 ** 2)
  })

  test('are unknown with one document, or of a product that is off', () => {
    expect(store.rate(calls)).toBeNaN()
    store.take(made(1))
    expect(store.rate(calls)).toBeNaN()
    store.take(made(2))
    expect(store.rate(({ products }) => products?.tpu?.accepted)).toBeNaN()
    expect(store.rate(calls)).toBe(10)
  })

  test('begin anew after a restart of the server, a hole, or a clock that went back', () => {
    store.take(made(1, [], 500))
    store.take(made(2, [], 3))
    expect(store.documents).toHaveLength(1)
    store.take(made(3, [], 4))
    store.take(made(15, [], 900))
    expect(store.documents).toHaveLength(1)
    store.take(made(4, [], 901))
    expect(store.documents).toHaveLength(1)
  })

  test('ignore a document that is known, and keep those of a minute', () => {
    expect(store.take(made(1))).toBe(true)
    expect(store.take(made(1))).toBe(false)
    for (let second = 2; second < 300; second++) store.take(made(second))
    expect(store.documents).toHaveLength(61)
    expect(store.blocks.length).toBeLessThanOrEqual(300)
  })
})

describe('blocks', () => {
  test('are joined by slot, and a hole is one only where blocks may be missing', () => {
    store.take(made(1, range(100, 115)))
    store.take(made(2, range(103, 118)))
    expect(slots()).toEqual(range(100, 118).map(({ slot }) => slot))
    expect(store.blocks.some(({ isAfterHole }) => isAfterHole)).toBe(false)
    store.take(made(3, range(119, 121)))
    expect(store.blocks.at(-3)).toMatchObject({ slot: 119, isAfterHole: false })
    store.take(made(4, range(140, 141)))
    expect(store.blocks.at(-2)).toMatchObject({ slot: 140, isAfterHole: true })
  })

  test('are bounded, and forgotten when the chain is another', () => {
    for (let second = 0; second < 60; second++)
      store.take(made(second, range(second * 10, second * 10 + 15)))
    expect(store.blocks).toHaveLength(300)
    store.take(made(60, range(3, 5)))
    expect(slots()).toEqual([3, 4, 5])
  })

  test('are those of the set that is chosen', () => {
    const first = made(1, range(1, 3))
    const other = { ...first.sets[0]!, set: 'other' }
    other.stream = { ...other.stream!, blocks: range(7, 8) }
    store.take({ ...first, sets: [...first.sets, other] })
    expect([slots(), store.set?.set]).toEqual([[1, 2, 3], 'default'])
    store.choose('other')
    expect([slots(), store.set?.set]).toEqual([[7, 8], 'other'])
    store.choose('nobody')
    expect(store.set?.set).toBe('default')
  })
})

describe('landings', () => {
  const tpu = (counts: number[]): SolanaTpu => ({
    ...{ accepted: 0, rejected: 0, landed: 0, expired: 0, failed: 0 },
    ...{ in_flight: 0, queued: 0, senders_up: 1 },
    land_seconds: counts.map((count, at) => [[0.5, 1, 2, null][at]!, count]),
  })

  test('are counted between two documents, and interpolated', () => {
    const found = landingsOf(tpu([5, 5, 5, 5]), tpu([5, 15, 25, 25]))
    expect(found.count).toBe(20)
    expect(found.seconds(0.5)).toBe(1)
    expect(found.seconds(0.25)).toBeCloseTo(0.75)
    expect(found.seconds(0.99)).toBeCloseTo(1.98)
  })

  test('beyond the last bound are at least that long; without any there is no time', () => {
    expect(landingsOf(undefined, tpu([0, 0, 0, 4])).seconds(0.5)).toBe(2)
    expect(landingsOf(tpu([4, 4, 4, 4]), tpu([4, 4, 4, 4])).seconds(0.5)).toBeNaN()
    expect(landingsOf(undefined, undefined)).toMatchObject({ count: 0 })
  })
})

test('changes of nodes and streams are in the log, once', () => {
  const first = made(1)
  const node = { node: 'default/0', region: '', slot: 1, lag_slots: 0, first_share: null }
  const withState = (second: number, state: string, up: boolean): Solana => {
    const [set] = first.sets
    const sets = [{ ...set!, stream: { ...set!.stream!, up }, nodes: [{ ...node, state }] }]
    return { ...made(second), sets }
  }
  store.take(withState(1, 'up', true))
  store.take(withState(2, 'down', false))
  store.take(withState(3, 'down', false))
  expect(store.log.lines.map(({ kind, text }) => [kind, text])).toEqual([
    ['down', 'stream of default, up before'],
    ['down', 'node default/0, up before'],
  ])
})

describe('the state of the page', () => {
  const state = (more: Partial<SolanaFacts> & { trouble?: string; newAtMs?: number }) => {
    const document = made(1)
    const feed = { trouble: 'none', retryAtMs: 13_000, newAtMs: 9_500, newAtDate: 0 }
    const { trouble = 'none', newAtMs = 9_500, ...facts } = more
    const all = {
      ...{ document, set: 'default', stream: document.sets[0]!.stream, isHidden: false },
      ...{ pausedAtMs: null, feed: { ...feed, trouble, newAtMs } },
    }
    return solanaState({ ...all, ...facts } as SolanaFacts, 10_000)
  }
  const stream = made(1).sets[0]!.stream!

  test.each([
    ['live', {}, 'live', ''],
    ['hidden', { isHidden: true }, 'hidden', 'hidden'],
    ['offline', { trouble: 'offline' }, 'offline, again in 3 s', 'does not answer; this picture'],
    ['offline', { trouble: 'offline', newAtMs: 0 }, 'offline, again', 'does not answer'],
    ['offline', { trouble: 'unreadable' }, 'unreadable, again in 3 s', 'not one that this page'],
    ['refused', { trouble: 'refused' }, 'refused, again in 3 s', 'too many requests'],
    ['unauthorized', { trouble: 'unauthorized' }, 'token needed', 'without a token'],
    ['starting', { document: null, stream: null }, 'connecting', ''],
    ['empty', { document: { at_ms: 1, sets: [] }, stream: null }, 'no nodes', 'no Solana node'],
    ['empty', { stream: null }, 'no stream', 'no geyser stream of set default'],
    ['empty', { stream: { ...stream, age_ms: null } }, 'no block yet', 'first block'],
    ['degraded', { stream: { ...stream, up: false } }, 'stream down', 'no node of set default'],
    ['degraded', { stream: { ...stream, age_ms: 12_000 } }, 'no block for 12 s', 'silent'],
    ['quiet', { stream: { ...stream, age_ms: 4_000 } }, 'quiet for 4 s', ''],
    ['degraded', { newAtMs: 2_000 }, 'no news for 8 s', 'stands still'],
    ['paused', { pausedAtMs: 4_000 }, 'paused for 6 s', ''],
    ['offline', { pausedAtMs: 4_000, trouble: 'offline' }, 'offline', 'does not answer'],
  ])('is %s with %o', (name, facts, text, detail) => {
    const found = state(facts as Partial<SolanaFacts>)
    expect(found.name).toBe(name)
    expect(found.text).toContain(text)
    expect(found.detail).toContain(detail)
  })
})

describe('a document', () => {
  const good = made(1, range(1, 2))
  const [set] = good.sets

  test('may lack what is not for its reader, and have fields of a later version', () => {
    expect(isSolana(good)).toBe(true)
    expect(isSolana({ at_ms: 1, sets: [] })).toBe(true)
    expect(isSolana({ ...good, later: { more: 1 } })).toBe(true)
  })

  test.each([
    [null],
    ['text'],
    [[]],
    [{}],
    [{ at_ms: 1 }],
    [{ at_ms: 1, sets: {} }],
    [{ at_ms: '1', sets: [] }],
    [{ at_ms: Number.POSITIVE_INFINITY, sets: [] }],
    [{ at_ms: 1, sets: [{ set: 'a' }] }],
    [{ at_ms: 1, sets: [null] }],
    [{ at_ms: 1, sets: Array(300).fill(set) }],
    [{ at_ms: 1, sets: [{ ...set, stream: { ...set!.stream, blocks: [{ slot: 1 }] } }] }],
    [{ at_ms: 1, sets: [{ ...set, stream: { ...set!.stream, tps: 'many' } }] }],
    [{ at_ms: 1, sets: [{ ...set, nodes: [{ node: 5 }] }] }],
    [{ at_ms: 1, sets: [{ set: 'x'.repeat(300), stream: null }] }],
    [{ ...good, products: { rpc: { calls: 1 } } }],
    [{ ...good, products: { tpu: null } }],
    [{ ...good, left_out: 3 }],
  ])('%o is refused', (value) => {
    expect(isSolana(value)).toBe(false)
  })
})
