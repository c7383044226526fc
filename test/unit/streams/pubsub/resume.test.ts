// Subscriptions that continue after a cursor: at the gateway that sent it and at another one, which
// got the same chain in another order. What is sent is compared with a connection that stayed.
import { describe, expect, it, vi } from 'vitest'
import { keyOf } from '../../../../src/chain/solana/base58.ts'
import { retractionUpdate, slotUpdate } from '../../../../src/chain/solana/received-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../../../src/chain/solana/updates.ts'
import { cursorText, SentSlots } from '../../../../src/streams/pubsub/cursor.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { budgetOn, type LooseSession } from '../../../testkit/loose-session.ts'
import {
  type CursorNotification,
  notifications,
  PubsubGateway,
  paramsOf,
  resumable,
  roomy,
  slotsOf,
} from '../../../testkit/pubsub-gateway.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'
import { until } from '../../../testkit/until.ts'

const [owner] = new SyntheticSolana({ seed: 7, accounts: 12 }).owners

/** As another node sends it: transactions in the order its threads finish. */
function otherOrder(updates: readonly SolanaUpdate[]): SolanaUpdate[] {
  const items = updates.filter(({ kind }) => kind === 'transaction' || kind === 'account')
  const transactions = items.filter(({ kind }) => kind === 'transaction')
  const swapped = transactions.map((_, at) => transactions[at ^ 1] ?? transactions[at]!)
  const accounts = items
    .filter((one) => one.kind === 'account')
    .sort((a, b) => (keyOf(a.pubkey) < keyOf(b.pubkey) ? 1 : -1))
  const byKey = new Map<string, SolanaUpdate[]>()
  for (const one of items)
    if (one.kind === 'account')
      byKey.set(keyOf(one.pubkey), [...(byKey.get(keyOf(one.pubkey)) ?? []), one])
  // Writes of one account stay in their order.
  const written = accounts.map((one) => byKey.get(keyOf(one.pubkey))!.shift()!)
  const mixed = [...swapped, ...written]
  let at = 0
  return updates.map((one) => (items.includes(one) ? mixed[at++]! : one))
}

const slotIn = (result: unknown) => (result as { context: { slot: number } }).context.slot
const results = (session: LooseSession) => notifications(session).map(({ result }) => result)
const turn = () => new Promise((resolve) => setImmediate(resolve))

/** Roots in slot notifications are those of the moment; gateways differ in it. */
const withoutRoot = (result: unknown) =>
  typeof result === 'object' ? { ...result, root: undefined } : result

describe.each(resumable)('%sSubscribe at %s', (topic, commitment) => {
  it('comes back to a gateway that has gone on without it', async () => {
    const [oracle, ...gateways] = [new PubsubGateway(), new PubsubGateway(), new PubsubGateway()]
    const stayed = oracle!.connect()
    oracle!.ask(stayed, topic, paramsOf(topic, { commitment, cursor: true }))
    // Others stay: the gateways do not begin anew when the client leaves.
    for (const gateway of gateways) gateway.connect()
    const slots = slotsOf(42)
    const got: CursorNotification[] = []
    for (let turns = 0; turns < 6; turns++) {
      const gateway = gateways[turns % 2]!
      const session = gateway.connect()
      const resume = got.at(-1)?.cursor
      const more = resume === undefined ? { cursor: true } : { resume }
      gateway.ask(session, topic, paramsOf(topic, { commitment, ...more }))
      await until(() => session.topics.size > 0, 'to be live')
      const part = slots.splice(0, 7).flat()
      for (const one of [oracle!, ...gateways]) one.publish(part)
      got.push(...notifications(session))
      session.end()
    }
    const told = got.map(({ result }) => withoutRoot(result))
    expect(told).toEqual(results(stayed).map(withoutRoot))
  })

  it('sends the rest after any cursor, at another gateway, while the chain goes on', async () => {
    const slots = slotsOf(24)
    const first = new PubsubGateway()
    const stayed = first.connect()
    expect(first.ask(stayed, topic, paramsOf(topic, { commitment, cursor: true })).kind).toBe(
      'text',
    )
    first.publish(slots.flat())
    const all = notifications(stayed)
    expect(all.length).toBeGreaterThan(8)
    const second = new PubsubGateway()
    const updates = slots.flatMap(otherOrder)
    const half = Math.floor(updates.length / 2) + 3
    second.publish(updates.slice(0, half))
    const step = Math.max(1, Math.floor(all.length / caseCount(8, 23)))
    const resumed = all.flatMap(({ cursor }, at) => {
      if (at % step !== 0) return []
      const session = second.connect()
      const params = paramsOf(topic, { commitment, resume: cursor })
      expect(second.ask(session, topic, params)).toMatchObject({ kind: 'text' })
      return [{ session, rest: all.slice(at + 1) }]
    })
    for (const update of updates.slice(half)) {
      second.publish([update])
      await turn()
    }
    for (const { session, rest } of resumed) {
      await until(() => session.told.length >= rest.length, 'the rest')
      await turn()
      expect(results(session).map(withoutRoot)).toEqual(
        rest.map(({ result }) => withoutRoot(result)),
      )
    }
    // Their cursors are as good as the first ones.
    const again = second.connect()
    const { session, rest } = resumed[0]!
    const at = Math.floor(rest.length / 2)
    const params = paramsOf(topic, { commitment, resume: notifications(session)[at]!.cursor })
    expect(second.ask(again, topic, params).kind).toBe('text')
    await until(() => again.told.length >= rest.length - at - 1, 'the rest of the rest')
    expect(results(again).map(withoutRoot)).toEqual(
      rest.slice(at + 1).map(({ result }) => withoutRoot(result)),
    )
  })
})

describe('the block time of a transaction', () => {
  it('is that of its block once it is confirmed, null before, and of those who ask for it', () => {
    const gateway = new PubsubGateway()
    const asked = (commitment: string, blockTime?: boolean) => {
      const session = gateway.connect()
      const config = { transactionDetails: 'signatures', commitment, blockTime }
      gateway.ask(session, 'transaction', [{}, config])
      return session
    }
    const processed = asked('processed', true)
    const [confirmed, plain] = [asked('confirmed', true), asked('confirmed')]
    const slots = slotsOf(8)
    gateway.publish(slots.flat())
    const times = new Map(
      slots.flat().flatMap((one) => (one.kind === 'blockMeta' ? [[one.slot, one.blockTime]] : [])),
    )
    type Shown = { slot: number; blockTime?: number | null }
    const shown = results(confirmed) as Shown[]
    expect(shown.length).toBe(7 * 6)
    expect(shown.map(({ blockTime }) => blockTime)).toEqual(
      shown.map(({ slot }) => times.get(slot)),
    )
    expect(shown.map(({ blockTime, ...rest }) => rest)).toEqual(results(plain))
    for (const { blockTime } of results(processed) as Shown[]) expect(blockTime).toBeNull()
  })
})

describe('a cursor', () => {
  it('is a member of params beside an unchanged result, and of those who ask for it', () => {
    const gateway = new PubsubGateway()
    const [plain, asked] = [gateway.connect(), gateway.connect()]
    gateway.ask(plain, 'logs', ['allWithVotes', { commitment: 'processed' }])
    gateway.ask(asked, 'logs', ['allWithVotes', { commitment: 'processed', cursor: true }])
    gateway.publish(slotsOf(1).flat())
    expect(plain.told[0]).toMatch(/,"subscription":1}}$/)
    expect(asked.told[0]).toMatch(/,"subscription":2,"cursor":"c1_[\w-]+"}}$/)
    expect(results(asked)).toEqual(results(plain))
  })

  it('is refused when it is malformed, of another version, kind, commitment or chain', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect()
    gateway.ask(session, 'logs', ['all', { commitment: 'confirmed', cursor: true }])
    gateway.publish(slotsOf(3).flat())
    const { cursor } = notifications(session)[0]!
    const reasonOf = (topic: string, resume: unknown, commitment = 'confirmed') => {
      const answer = gateway.ask(gateway.connect(), topic, paramsOf(topic, { commitment, resume }))
      return answer.kind === 'error' ? [answer.error.code, answer.error.data] : answer
    }
    const invalid = (reason: string) => [-32602, { reason }]
    for (const text of ['', 'c1_', 'c1_zz', cursor.slice(0, -1), `${cursor}A`, 7, {}, 'é'])
      expect(reasonOf('logs', text)).toEqual(invalid('cursor-malformed'))
    expect(reasonOf('logs', cursor.replace('c1_', 'c2_'))).toEqual(invalid('cursor-version'))
    expect(reasonOf('transaction', cursor)).toEqual(invalid('cursor-kind'))
    expect(reasonOf('logs', cursor, 'finalized')).toEqual(invalid('cursor-kind'))
    const other = new PubsubGateway()
    const answerOf = () =>
      other.ask(other.connect(), 'logs', ['all', { commitment: 'confirmed', resume: cursor }])
    expect(answerOf()).toMatchObject({ error: { data: { reason: 'replay-unavailable' } } })
    other.publish(new SyntheticSolana({ firstSlot: 3_000 }).next())
    expect(answerOf()).toEqual({
      kind: 'error',
      error: {
        code: -32001,
        message: 'The slots after the cursor are not kept. First available slot: 3000',
        data: { reason: 'cursor-too-old', oldestSlot: 3_000 },
      },
    })
    const early = new PubsubGateway()
    early.publish(new SyntheticSolana({ firstSlot: 100 }).next())
    const params = ['all', { commitment: 'confirmed', resume: cursor }]
    expect(early.ask(early.connect(), 'logs', params)).toMatchObject({
      error: { data: { reason: 'cursor-ahead' } },
    })
  })

  it('has at most 1,600 bytes, and fits a message, with as many open slots as it can name', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect()
    gateway.ask(session, 'logs', ['allWithVotes', { commitment: 'processed', cursor: true }])
    const chain = new SyntheticSolana({ firstSlot: 4_000_000_000 })
    // None of them is complete.
    for (let count = 0; count < 40; count++)
      gateway.publish(chain.next().filter((one) => one.kind !== 'slot' || one.status === 5))
    const { cursor } = notifications(session).at(-1)!
    expect(cursor.length).toBeGreaterThan(1_000)
    expect(cursor.length).toBeLessThan(1_600)
    const widest = new SentSlots()
    for (let slot = 4_000_000_000; slot < 4_000_000_040; slot++)
      widest.open(slot, { replaced: 99, parent: slot - 1, place: 65_535 })
    expect(cursorText({ kind: 'transaction', commitment: 0 }, widest).length).toBeLessThan(1_600)
    const params = ['allWithVotes', { commitment: 'processed', resume: cursor }]
    expect(gateway.ask(gateway.connect(), 'logs', params).kind).toBe('text')
  })

  it('has nothing of slots that were confirmed before the first connection', async () => {
    const gateway = new PubsubGateway()
    const updates = slotsOf(24).flat()
    // The next status is that of an older slot.
    const isFinal = (one: SolanaUpdate) => one.kind === 'slot' && one.status === 2
    const at = updates.findIndex((one, index) => index > updates.length / 2 && isFinal(one))
    gateway.publish(updates.slice(0, at))
    const stayed = gateway.connect()
    const config = { commitment: 'confirmed', cursor: true }
    gateway.ask(stayed, 'logs', ['allWithVotes', config])
    gateway.publish(updates.slice(at))
    const all = notifications(stayed)
    const session = gateway.connect()
    const { cursor: resume } = all[0]!
    gateway.ask(session, 'logs', ['allWithVotes', { ...config, resume }])
    await until(() => session.topics.size > 0, 'to be live')
    expect(results(session)).toEqual(all.slice(1).map(({ result }) => result))
  })

  it.each([
    ['its gateway began', 0],
    ['the first status', 1],
    ['the first content', 2],
  ])('has nothing of slots before the first content, connected after %s', async (_, after) => {
    const [gateway, other] = [new PubsubGateway(), new PubsubGateway()]
    const slots = slotsOf(24)
    other.publish(slots.flat())
    const isConfirmed = (one: SolanaUpdate) => one.kind === 'slot' && one.status === 1
    const statuses = slots.slice(8, 12).flat().filter(isConfirmed)
    const [second, ...rest] = slots
      .slice(12)
      .flat()
      .filter((one) => one.kind !== 'slot')
    const ends = slots.slice(12).flat().filter(isConfirmed)
    // Of slots that came before it only the first and the last are told to be confirmed.
    const parts = [[], [statuses[0]!], [second!], [statuses.at(-1)!, ...rest, ...ends]]
    for (const part of parts.slice(0, after + 1)) gateway.publish(part)
    const stayed = gateway.connect()
    const config = { commitment: 'confirmed', cursor: true }
    gateway.ask(stayed, 'logs', ['allWithVotes', config])
    for (const part of parts.slice(after + 1)) gateway.publish(part)
    const all = notifications(stayed)
    expect(all.length).toBeGreaterThan(8)
    const session = other.connect()
    const { cursor: resume } = all[0]!
    other.ask(session, 'logs', ['allWithVotes', { ...config, resume }])
    await until(() => session.topics.size > 0, 'to be live')
    expect(results(session)).toEqual(all.slice(1).map(({ result }) => result))
  })

  it('is not for retractions, nor for the stages of slots', () => {
    const gateway = new PubsubGateway()
    const both = { commitment: 'processed', cursor: true, retractions: true }
    for (const [topic, params] of [
      ['logs', ['all', both]],
      ['slot', [both]],
      ['slotsUpdates', [{ cursor: true }]],
    ] as const)
      expect(gateway.ask(gateway.connect(), topic, params)).toMatchObject({
        error: { code: -32602 },
      })
  })

  it('is not for a connection that has the same subscription', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect()
    gateway.ask(session, 'logs', ['all', { cursor: true }])
    gateway.publish(slotsOf(12).flat())
    const params = ['all', { resume: notifications(session)[0]!.cursor }]
    expect(gateway.ask(session, 'logs', params)).toMatchObject({
      error: { data: { reason: 'cursor-in-use' } },
    })
  })
})

describe('a replay', () => {
  const config = { commitment: 'processed', cursor: true }

  it('waits while its connection has no room, and pauses for nobody else', async () => {
    const gateway = new PubsubGateway()
    const stayed = gateway.connect()
    gateway.ask(stayed, 'logs', ['allWithVotes', config])
    gateway.publish(slotsOf(20).flat())
    const resume = notifications(stayed)[0]!.cursor
    const [slow, quick] = [gateway.connect(), gateway.connect()]
    let room = 5
    slow.hasRoom = () => slow.told.length < room
    for (const session of [slow, quick])
      gateway.ask(session, 'logs', ['allWithVotes', { ...config, resume }])
    const rest = stayed.told.length - 1
    await until(() => quick.told.length === rest, 'the quick one')
    expect(slow.told).toHaveLength(5)
    room = Number.POSITIVE_INFINITY
    await until(() => slow.told.length === rest, 'the slow one')
    expect(results(slow)).toEqual(results(stayed).slice(1))
  })

  it('ends with a message when what it has to send is evicted meanwhile', async () => {
    const gateway = new PubsubGateway()
    const stayed = gateway.connect()
    gateway.ask(stayed, 'logs', ['allWithVotes', config])
    const chain = new SyntheticSolana()
    for (let count = 0; count < 5; count++) gateway.publish(chain.next())
    const slow = gateway.connect()
    let isOpen = true
    slow.hasRoom = () => isOpen && slow.told.length < 2
    const { cursor } = notifications(stayed)[0]!
    gateway.ask(slow, 'logs', ['allWithVotes', { ...config, resume: cursor }])
    await until(() => slow.told.length === 2, 'a start')
    for (let count = 0; count < 200; count++) gateway.publish(chain.next())
    isOpen = false
    await until(() => slow.told.length === 3, 'the end')
    expect(JSON.parse(slow.told[2]!)).toMatchObject({
      error: { code: -32001, data: { reason: 'replay-lost', subscription: 1 } },
    })
    gateway.publish(chain.next())
    expect(slow.told).toHaveLength(3)
  })

  it('is one of four of its connection; the others follow', async () => {
    const gateway = new PubsubGateway()
    const stayed = gateway.connect()
    const views = ['processed', 'confirmed', 'finalized'].flatMap((commitment) =>
      ['all', 'allWithVotes'].map((filter) => [filter, { commitment, cursor: true }] as const),
    )
    for (const params of views) gateway.ask(stayed, 'logs', params)
    gateway.publish(slotsOf(30).flat())
    const told = stayed.told.map((text) => JSON.parse(text).params)
    const session = gateway.connect()
    let hasRoom = false
    const asked = new Set<unknown>()
    session.hasRoom = () => hasRoom
    for (const [at, [filter, given]] of views.entries()) {
      const { cursor: resume } = told.find(({ subscription }) => subscription === at + 1)
      const answer = gateway.ask(session, 'logs', [filter, { ...given, resume }])
      asked.add(answer.kind)
    }
    expect([...asked]).toEqual(['text'])
    for (let turns = 0; turns < 10; turns++) await turn()
    expect(gateway.replays).toBe(4)
    hasRoom = true
    await until(() => session.told.length === told.length - views.length, 'all of them')
  })
})

it('a replay asks for its turns with the pace of the slots that it has passed', async () => {
  const gateway = new PubsubGateway()
  const stayed = gateway.connect()
  gateway.ask(stayed, 'logs', paramsOf('logs', { cursor: true }))
  gateway.publish(slotsOf(30).flat())
  const ask = vi.spyOn(gateway.hub.turns, 'ask')
  const session = gateway.connect()
  const { cursor: resume } = notifications(stayed)[0]!
  gateway.ask(session, 'logs', paramsOf('logs', { resume }))
  await until(() => session.topics.size > 0, 'to be live')
  const pace = ask.mock.lastCall![1]!
  ask.mockRestore()
  const first = pace.restShare(0)
  expect(pace.restShare(10_000)).toBeLessThan(first)
})

it('sixteen replays of a customer run at once, on however many connections', async () => {
  const gateway = new PubsubGateway()
  const stayed = gateway.connect()
  const topics = ['logs', 'transaction', 'block', 'program'] as const
  const of = (topic: string, more: object) => paramsOf(topic, { commitment: 'confirmed', ...more })
  for (const topic of topics) gateway.ask(stayed, topic, of(topic, { cursor: true }))
  gateway.publish(slotsOf(30).flat())
  const cursorOf = (topic: string) =>
    stayed.told.map((text) => JSON.parse(text)).find(({ method }) => method.startsWith(topic))
      .params.cursor
  const [mine, other] = [budgetOn(roomy), budgetOn(roomy)]
  // One is lost before, and says so twice: its permits come back once.
  const lost = {
    ...{ isLost: false, passes: null, onLoaded() {}, release() {} },
    ...{ next: () => 'loading' as const, kept: () => [] },
  }
  const reading = vi.spyOn(gateway.hub, 'replay')
  // Reason for the cast: what a reader asks of it.
  reading.mockReturnValueOnce(lost as unknown as ReturnType<typeof gateway.hub.replay>)
  gateway.ask(gateway.connect(mine), 'logs', of('logs', { resume: cursorOf('logs') }))
  await until(() => reading.mock.calls.length === 1, 'its start')
  lost.isLost = true
  for (const _ of ['once', 'twice']) {
    lost.onLoaded()
    for (let turns = 0; turns < 4; turns++) await turn()
  }
  gateway.replays = 0
  let hasRoom = false
  const connect = (budget: typeof mine) => {
    const session = gateway.connect(budget)
    session.hasRoom = () => hasRoom
    for (const topic of topics) gateway.ask(session, topic, of(topic, { resume: cursorOf(topic) }))
    return session
  }
  const sessions = Array.from({ length: 6 }, () => connect(mine))
  for (let turns = 0; turns < 10; turns++) await turn()
  expect(gateway.replays).toBe(16)
  // They hold up no other customer.
  const others = connect(other)
  for (let turns = 0; turns < 10; turns++) await turn()
  expect(gateway.replays).toBe(20)
  hasRoom = true
  const all = stayed.told.length - topics.length
  await until(() => [...sessions, others].every(({ told }) => told.length === all), 'all of them')
  expect(gateway.replays).toBe(28)
})

describe('the end of the log', () => {
  const params = (topic: string, more: object) =>
    paramsOf(topic, { commitment: 'processed', ...more })
  const untilLive = (session: LooseSession) => until(() => session.topics.size > 0, 'to be live')

  it('may be inside of a slot whose accounts were written before the subscribe', async () => {
    // Another one: at the same the feed would have been live before.
    const [stayedAt, gateway] = [new PubsubGateway(), new PubsubGateway()]
    const stayed = stayedAt.connect()
    stayedAt.ask(stayed, 'program', params('program', { cursor: true }))
    const publish = (updates: readonly SolanaUpdate[]) => {
      for (const one of [stayedAt, gateway]) one.publish(updates)
    }
    const slots = slotsOf(24)
    // The last write of some account makes it the program's.
    const isOfOwner = (updates: readonly SolanaUpdate[]) => {
      const owners = new Map<string, string>()
      for (const one of updates)
        if (one.kind === 'account') owners.set(keyOf(one.pubkey), keyOf(one.owner))
      return [...owners.values()].includes(keyOf(owner!))
    }
    const at = slots.findLastIndex(isOfOwner)
    publish(slots.slice(0, at).flat())
    const { cursor: resume } = notifications(stayed).at(-1)!
    const last = slots[at]!
    const end = last.findLastIndex(({ kind }) => kind !== 'slot') + 1
    publish(last.slice(0, end))
    const session = gateway.connect()
    gateway.ask(session, 'program', params('program', { resume }))
    await untilLive(session)
    const before = stayed.told.length
    publish(last.slice(end))
    expect(stayed.told.length).toBeGreaterThan(before)
    expect(results(session)).toEqual(results(stayed).slice(before))
  })

  it('may be inside of a slot that began before the engine did, beside a newer one', async () => {
    const [first, second, third] = slotsOf(3)
    const stayedAt = new PubsubGateway()
    const stayed = stayedAt.connect()
    stayedAt.ask(stayed, 'logs', params('logs', { cursor: true }))
    const gateway = new PubsubGateway()
    const items = second!.filter(({ kind }) => kind === 'transaction')
    const head = second!.slice(0, second!.indexOf(items[3]!))
    const [rest, more] = [second!.slice(head.length), third!.slice(0, 2)]
    for (const one of [stayedAt, gateway]) one.publish([...first!, ...head, ...more])
    const { cursor: resume } = notifications(stayed)[5]!
    const session = gateway.connect()
    // The engine has begun, and holds what follows an index that it has not seen.
    for (const one of [stayedAt, gateway]) one.publish(rest.slice(0, rest.indexOf(items[4]!)))
    gateway.ask(session, 'logs', params('logs', { resume }))
    await until(() => session.told.length === 4, 'what was missed')
    await turn()
    for (const one of [stayedAt, gateway]) one.publish(rest.slice(rest.indexOf(items[4]!)))
    await untilLive(session)
    for (const one of [stayedAt, gateway]) one.publish(third!.slice(2))
    expect(results(session)).toEqual(results(stayed).slice(-session.told.length))
    expect(session.told.length).toBe(6 + 6)
  })
})

describe('another bank of a slot', () => {
  it('is sent whole after the one before it, and its cursor does not repeat that one', async () => {
    const gateway = new PubsubGateway()
    const stayed = gateway.connect()
    const params = (more: object) => ['allWithVotes', { commitment: 'processed', ...more }]
    gateway.ask(stayed, 'logs', params({ cursor: true }))
    const chain = new SyntheticSolana()
    gateway.publish(chain.next())
    const slot = chain.slot
    const [shred, created, ...rest] = chain.next()
    const isItem = ({ kind }: SolanaUpdate) => kind === 'transaction'
    const void_ = rest.filter(isItem).slice(0, 4)
    const moment = { slot, createdAtMs: 0 }
    const handover = { bank: 1, reason: 'handover', restated: [] } as const
    const next = slotUpdate(moment, { parent: slot - 2, status: slotStatus.createdBank })
    gateway.publish([shred!, created!, ...void_, retractionUpdate(moment, handover), next])
    gateway.publish(rest)
    gateway.publish(chain.next())
    const all = notifications(stayed)
    expect(all).toHaveLength(6 + 4 + 6 + 6)
    for (const [at, { cursor }] of all.entries()) {
      const session = gateway.connect()
      gateway.ask(session, 'logs', params({ resume: cursor }))
      await until(() => session.told.length >= all.length - at - 1, 'the rest')
      await turn()
      expect(results(session)).toEqual(all.slice(at + 1).map(({ result }) => result))
    }
  })
})

describe.each(['logs', 'program', 'program of every write'])('%sSubscribe', (topic) => {
  const isCreation = (one: SolanaUpdate) => one.kind === 'slot' && one.status === 5

  it.each([
    ['with what came of it', () => true],
    ['without content', isCreation],
  ])('goes on in a bank that is restated %s, also elsewhere', async (_, isRestated) => {
    const [gateway, other] = [new PubsubGateway(), new PubsubGateway()]
    const [stayed, plain] = [gateway.connect(), other.connect()]
    const params = (more: object) => paramsOf(topic, { commitment: 'processed', ...more })
    gateway.ask(stayed, topic, params({ cursor: true }))
    other.ask(plain, topic, params({ cursor: true }))
    const updates = slotsOf(20).flat()
    other.publish(updates)
    const slotsTold = notifications(plain).map(({ result }) => slotIn(result))
    const timesOf = (slot: number) => slotsTold.filter((one) => one === slot).length
    const slot = slotsTold.reduce((most, one) => (timesOf(one) > timesOf(most) ? one : most))
    expect(timesOf(slot)).toBeGreaterThan(1)
    const at = updates.findIndex((one) => one.slot === slot && isCreation(one))
    const cut = at + 8
    const restated = updates.slice(at, cut).filter(isRestated)
    const moment = { slot, createdAtMs: 0 }
    const retraction = retractionUpdate(moment, { bank: 1, reason: 'fork', restated })
    gateway.publish([...updates.slice(0, cut), retraction, ...updates.slice(cut)])
    const all = notifications(stayed)
    expect(all.map(({ result }) => result)).toEqual(results(plain))
    for (const [index, { cursor }] of all.entries()) {
      const session = other.connect()
      other.ask(session, topic, params({ resume: cursor }))
      await until(() => session.topics.size > 0, 'to be live')
      expect(results(session)).toEqual(results(stayed).slice(index + 1))
    }
  })
})
