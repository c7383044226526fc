// Tests the document of GET /v1/solana: its values are those of their sources, it is bounded, and
// it names nothing that is off or not for its reader.
import { describe, expect, test } from 'vitest'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import type { Solana } from '../../../../src/client/frames.ts'
import { isSolana } from '../../../../src/live/solana-document.ts'
import { solanaDocument } from '../../../../src/products/metrics/solana.ts'
import { expectDescribed } from '../../../testkit/api-schemas.ts'
import { HandSolana, productMeters, someNodes, workASecond } from '../../../testkit/solana-view.ts'

async function read(
  view: HandSolana,
  meters = new Meters(),
  isFull = true,
): Promise<{ document: Solana; text: string }> {
  const text = await solanaDocument(view, meters, { isFull, nowMs: 1_700_000_000_000.7 })
  const document = JSON.parse(text)
  expectDescribed('get', '/v1/solana', { status: 200, body: document })
  expect(isSolana(document)).toBe(true)
  return { document, text }
}

const figures = (slot: number, costUnits: number) => ({
  slot,
  transactions: 500,
  content: { votes: 0, failed: 0, feeLamports: 0, feeMedian: 0, costUnits },
})

describe('the sets of GET /v1/solana', () => {
  test('have the heads, the slot time and the nodes of their sources', async () => {
    const view = new HandSolana()
    const { document } = await read(view)
    expect(document.at_ms).toBe(1_700_000_000_001)
    const [set] = document.sets
    const { newest } = view
    expect(set?.stream).toMatchObject({
      up: true,
      slot_ms: 400,
      age_ms: 120,
      processed: newest + 2,
      confirmed: newest,
      finalized: newest - 30,
    })
    expect(set?.nodes).toEqual(
      someNodes.map(({ name, region, state, slot, lagSlots, firstShare }) => {
        return { node: name, region, state, slot, lag_slots: lagSlots, first_share: firstShare }
      }),
    )
  })

  test('have the last 16 blocks, oldest first, and the throughput of ten seconds', async () => {
    const view = new HandSolana()
    const { document } = await read(view)
    const { blocks = [], tps } = document.sets[0]?.stream ?? {}
    expect(blocks.map(({ slot }) => slot)).toEqual(view.blocks.slice(-16).map(({ slot }) => slot))
    const last = view.blocks.at(-1)!
    expect(blocks.at(-1)).toEqual({
      slot: last.slot,
      transactions: last.transactions,
      votes: 600,
      failed: last.content!.failed,
      fee_lamports: last.content!.feeLamports,
      median_fee_lamports: last.content!.feeMedian,
      cost_units: last.content!.costUnits,
    })
    const [first, ...later] = view.blocks.filter(({ slot }) => (last.slot - slot) * 400 <= 10_000)
    const sum = later.reduce((total, { transactions }) => total + transactions, 0)
    expect(tps).toBeCloseTo(sum / ((last.slot - first!.slot) * 0.4), 1)
  })

  test('have nulls for what is not known, never zeros', async () => {
    const view = new HandSolana(0)
    view.ageMs = null
    const { document } = await read(view)
    expect(document.sets[0]?.stream).toMatchObject({
      ...{ age_ms: null, processed: null, confirmed: null, finalized: null, tps: null },
      blocks: [],
    })
    view.blocks.push({ slot: 5, transactions: 7, content: null })
    const unread = (await read(view)).document.sets[0]?.stream
    expect(unread?.tps).toBeNull()
    expect(unread?.blocks[0]).toMatchObject({ slot: 5, transactions: 7, votes: null })
    expect(unread?.blocks[0]).toMatchObject({ fee_lamports: null, cost_units: null })
    view.hasStream = false
    expect((await read(view)).document.sets[0]?.stream).toBeNull()
    view.hasSets = false
    expect((await read(view)).document.sets).toEqual([])
  })

  test.each([
    [400, 30_000_000, 60_000_000],
    [397, 30_000_000, 60_000_000],
    [800, 30_000_000, 60_000_000],
    [200, 20_000_000, 30_000_000],
    [50, 20_000_000, 30_000_000],
    [250, 20_000_000, 37_500_000],
    [400, 60_000_001, 100_000_000],
    [200, 31_000_000, 50_000_000],
  ])('have the cost limit of slots of %i ms with blocks of %i units', async (ms, most, limit) => {
    const view = new HandSolana(0)
    view.slotMs = ms
    view.blocks.push(figures(1, most), figures(2, 5))
    expect((await read(view)).document.sets[0]?.stream?.cost_limit).toBe(limit)
  })

  test('are bounded, and what is left out is counted', async () => {
    const view = new HandSolana()
    const nodes = Array.from({ length: 50 }, (_, at) => ({ ...someNodes[0]!, name: `big/${at}` }))
    view.nodes = nodes
    view.others = Array.from({ length: 30 }, (_, at) => {
      return { ...view.sets()[0]!, name: `set-${at}`, nodes }
    })
    const { document, text } = await read(view)
    expect(document.sets).toHaveLength(16)
    expect(document.sets.flatMap((set) => set.nodes ?? [])).toHaveLength(64)
    expect(document.left_out).toEqual({ sets: 15, nodes: 31 * 50 - 64 })
    expect(text.length).toBeLessThan(64_000)
  })
})

describe('the products of GET /v1/solana', () => {
  test('have the values of their meters', async () => {
    const of = productMeters()
    workASecond(of)
    const { products } = (await read(new HandSolana(), of.meters)).document
    expect(products?.rpc).toEqual({
      ...{ calls: 40, errors: 1, refused: 0, open: null, subscriptions: null, sent: null },
    })
    expect(products?.websocket).toEqual({
      ...{ calls: 3, errors: 0, refused: 0, open: 12, subscriptions: 34, sent: 210 },
    })
    expect(products?.grpc).toEqual({
      ...{ calls: 1, errors: 0, refused: 0, open: 5, subscriptions: null, sent: 9_000 },
    })
    const { land_seconds: landings, ...tpu } = products!.tpu!
    expect(tpu).toEqual({
      ...{ accepted: 10, rejected: 1, landed: 8, expired: 1, failed: 0 },
      ...{ in_flight: 4, queued: 1, senders_up: 2 },
    })
    expect(landings.at(-1)).toEqual([null, 8])
    expect(landings.find(([bound]) => bound === 1)).toEqual([1, 4])
    expect(products?.shredstream).toEqual({
      ...{ up: true, received: 5_000, accepted: 2_600, sent: 7_800, dropped: 2_400 },
      ...{ rebuilt: 12, destinations: 3 },
    })
  })

  test('that are off are absent', async () => {
    expect((await read(new HandSolana())).document.products).toEqual({})
    const meters = new Meters()
    meters.pairs('sluice_rpc_requests_total', 'x', ['method', ['a']], ['outcome', ['ok', 'error']])
    expect(Object.keys((await read(new HandSolana(), meters)).document.products!)).toEqual(['rpc'])
  })

  test('of a hub are what its gateways count: its own stream is read by them', async () => {
    const of = productMeters()
    of.grpc.streams.set(2)
    const name = 'sluice_grpc_streams'
    const sample = (gateway: string) => ({ name, labels: { gateway }, value: 7 })
    const family = { name, help: '', kind: 'gauge' as const }
    of.meters.join(async () => [{ ...family, samples: [sample('one'), sample('two')] }])
    const { products } = (await read(new HandSolana(), of.meters)).document
    expect(products?.grpc?.open).toBe(14)
  })

  test('nodes and other sets are not in a customer’s view', async () => {
    const view = new HandSolana()
    view.others = [{ ...view.sets()[0]!, name: 'acme' }]
    const of = productMeters()
    workASecond(of)
    const { document, text } = await read(view, of.meters, false)
    expect(Object.keys(document)).toEqual(['at_ms', 'sets'])
    expect(document.sets.map((set) => Object.keys(set))).toEqual([['set', 'stream']])
    expect(text).not.toMatch(/acme|default\/|fra/)
  })
})
