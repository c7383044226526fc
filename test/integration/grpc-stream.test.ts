// Subscribe as clients meet it: every kind of filter, replay, replacement, order, odd framing.
import { connect } from 'node:http2'
import { afterEach, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { builtInPlans, standardPlan } from '../../src/customers/subscriptions/plans.ts'
import { callGrpc } from '../../src/operator/commands/call-grpc.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import { readFrames, readUpdate, requestOf } from '../testkit/geyser-asking.ts'
import { type Asked, type Expected, expectedOf } from '../testkit/geyser-oracle.ts'
import { call, codec, GrpcStage, Subscription, withToken } from '../testkit/grpc-stage.ts'
import { framed } from '../testkit/raw-grpc.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

let stage: GrpcStage

afterEach(async () => {
  await stage.close()
})

const nothing: Asked = {
  commitment: 0,
  accounts: {},
  slots: {},
  transactions: {},
  transactionsStatus: {},
  blocks: {},
  blocksMeta: {},
  entry: {},
  accountsDataSlice: [],
}
const everything: Asked = {
  ...nothing,
  accounts: { a: {} },
  slots: { s: { interslotUpdates: true } },
  transactions: { t: {} },
  transactionsStatus: { u: {} },
  blocks: { b: { includeAccounts: true, includeEntries: true } },
  blocksMeta: { m: {} },
  entry: { e: {} },
}
const slotsRequest = Buffer.from('12030a0161', 'hex')

/** What came so far but pings and pongs, each message read once however often this is asked. */
function got(subscription: Subscription): Expected[] {
  const known = read.get(subscription) ?? []
  for (const bytes of subscription.raw.slice(known.length)) known.push(readUpdate(codec, bytes))
  read.set(subscription, known)
  return known.filter(({ field }) => field !== 'ping' && field !== 'pong')
}

const read = new WeakMap<Subscription, Expected[]>()

/** What the hub publishes from now on, by commitment. */
function record(): [SolanaUpdate[], SolanaUpdate[], SolanaUpdate[]] {
  const published: [SolanaUpdate[], SolanaUpdate[], SolanaUpdate[]] = [[], [], []]
  stage.hub!.listen((commitment, update) => void published[commitment].push(update))
  return published
}

async function open(asked: object, token = stage.provision().token): Promise<Subscription> {
  const subscription = new Subscription(stage.client(), withToken(token))
  subscription.ask(asked)
  await subscription.settled()
  return subscription
}

describe('Subscribe', () => {
  it('sends every kind of update at every commitment, in order', async () => {
    stage = await GrpcStage.open()
    const chain = new SyntheticSolana({ seed: 9 })
    const published = record()
    const asked = [0, 1, 2].map((commitment) => ({ ...everything, commitment })) as Asked[]
    const streams = await Promise.all(asked.map((one) => open(requestOf(one))))
    for (let slot = 0; slot < 8; slot++) stage.publish(chain.next())
    for (const [commitment, stream] of streams.entries()) {
      const expected = published[commitment as 0].flatMap((update) =>
        expectedOf(asked[commitment]!, update),
      )
      await until(() => got(stream).length >= expected.length, 'all updates')
      expect(got(stream)).toEqual(expected)
      // Content, block, block meta, status: the order within a slot.
      const fields = expected.filter(({ mark }) => mark.startsWith('1000/') || mark.length > 30)
      const block = fields.findIndex(({ field }) => field === 'block')
      expect(fields[block + 1]?.field).toBe('blockMeta')
      expect(fields.slice(0, block).some(({ field }) => field === 'account')).toBe(true)
    }
    const sent = await stage.meter('sluice_grpc_updates_total{kind="account"}')
    expect(sent).toBe(streams.flatMap(got).filter(({ field }) => field === 'account').length)
  })

  it('takes the five bytes of a Rust client as all slots, and ignores unknown fields', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const plain = new Subscription(stage.client(), withToken(token))
    plain.askBytes(slotsRequest)
    const odd = new Subscription(stage.client(), withToken(token))
    odd.askBytes(Buffer.concat([Buffer.from('a2060568656c6c6f', 'hex'), slotsRequest]))
    await Promise.all([plain.settled(), odd.settled()])
    stage.publish(new SyntheticSolana().next())
    for (const stream of [plain, odd]) {
      await until(() => stream.of('slot').length > 0, 'a slot')
      expect(stream.updates.find(({ slot }) => slot).filters).toEqual(['a'])
    }
  })

  it('changes keys of a filter without sending it again, from a slot on', async () => {
    const plans = { ...builtInPlans, standard: { ...standardPlan, filterKeys: 3 } }
    stage = await GrpcStage.open({ plans })
    const chain = new SyntheticSolana({ accounts: 3, transactionsPerSlot: 10 })
    const [one, two, three] = chain.keys as [Uint8Array, Uint8Array, Uint8Array]
    const stream = await open({ accounts: { mine: { account: [encodeBase58(one)] } } })
    stage.publish(chain.next())
    stream.ask({ keys: { id: 7, changes: [{ filter: 'mine', add: [two], remove: [one] }] } })
    stream.ask({
      keys: { id: 8, changes: [{ filter: 'mine', add: [one, three, Buffer.alloc(32)] }] },
    })
    await until(() => stream.of('keys').length === 2, 'both answers')
    const [changed, refused] = stream.of('keys')
    expect(changed).toMatchObject({ id: 7, error: null })
    expect(Number(changed.fromSlot)).toBe(1001)
    expect(refused).toMatchObject({ id: 8 })
    expect(refused.error).toContain('accounts["mine"].account: at most 3 keys are allowed')
    stage.publish(chain.next())
    await stream.settled()
    const keysAt = (slot: number) =>
      stream
        .of('account')
        .filter((update) => Number(update.slot) === slot)
        .map(({ account }) => encodeBase58(account.pubkey))
    expect(new Set(keysAt(1000))).toEqual(new Set([encodeBase58(one)]))
    expect(new Set(keysAt(1001))).toEqual(new Set([encodeBase58(two)]))
  })

  it('narrows by account, owner, mention and signature, and names what matched', async () => {
    stage = await GrpcStage.open()
    const chain = new SyntheticSolana({ seed: 4 })
    const key = encodeBase58(chain.keys[0]!)
    const owner = encodeBase58(chain.owners[0]!)
    const asked: Asked = {
      ...nothing,
      accounts: {
        one: { account: [key] },
        owned: { owner: [owner] },
        both: { account: [key], owner: [owner] },
        squeezed: { cuckoo: [key] },
        sized: { filters: [{ datasize: 165 }, { tokenAccountState: true }] },
      },
      transactions: {
        t: { accountInclude: [key], failed: false },
        w: { tokenAccounts: 1 },
        // Every transaction runs its second key with data, and its first without any.
        x: { instructions: [{ program: key, dataPrefix: Buffer.alloc(0) }] },
      },
      transactionsStatus: { v: { vote: true } },
      accountsDataSlice: [
        { offset: 0, length: 8 },
        { offset: 100, length: 8 },
      ],
    }
    const published = record()
    const stream = await open(requestOf(asked))
    for (let slot = 0; slot < 20; slot++) stage.publish(chain.next())
    const expected = published[0].flatMap((update) => expectedOf(asked, update))
    await until(() => got(stream).length >= expected.length, 'all updates')
    expect(got(stream)).toEqual(expected)
    const names = new Set(expected.flatMap(({ filters }) => filters))
    expect([...names].sort()).toEqual([
      'both',
      'one',
      'owned',
      'sized',
      'squeezed',
      't',
      'v',
      'w',
      'x',
    ])
  })

  it('answers a ping with its id and changes nothing; a request replaces all filters', async () => {
    stage = await GrpcStage.open()
    const chain = new SyntheticSolana()
    const stream = await open({ slots: { s: {} } })
    stream.ask({ ping: { id: -4 }, accounts: { a: {} } })
    await until(() => stream.of('pong').some(({ id }) => id === -4), 'the pong')
    stage.publish(chain.next())
    await until(() => stream.of('slot').length > 0, 'slots')
    expect(stream.of('account')).toHaveLength(0)
    stream.ask({ blocksMeta: { m: {} } })
    await stream.settled()
    const slots = stream.of('slot').length
    stage.publish(chain.next())
    await until(() => stream.of('blockMeta').length > 0, 'a block meta')
    expect(stream.of('slot')).toHaveLength(slots)
    stream.ask({})
    await stream.settled()
    stage.publish(chain.next())
    await stream.settled()
    expect(stream.of('blockMeta')).toHaveLength(1)
  })

  it('ends with INVALID_ARGUMENT and the field when a filter is wrong', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    for (const [bytes, text] of [
      [
        codec.encode('geyser.SubscribeRequest', { accounts: { x: { owner: ['?'] } } }),
        /x"\]\.owner/,
      ],
      [Buffer.from('ffff', 'hex'), /no SubscribeRequest/],
    ] as const) {
      const stream = new Subscription(stage.client(), withToken(token))
      stream.askBytes(Buffer.from(bytes))
      await until(() => stream.status !== null, 'a status')
      expect(stream.status?.code).toBe(3)
      expect(stream.status?.details).toMatch(text)
    }
    expect(await stage.meter('sluice_grpc_streams_ended_total{reason="invalid"}')).toBe(2)
  })

  it('keeps sending after the client half-closed, and pings by itself', async () => {
    stage = await GrpcStage.open({ section: { pingMs: 100 } })
    const stream = await open({ slots: { s: {} } })
    stream.stream.end()
    await until(() => stream.of('ping').length > 1, 'pings')
    stage.publish(new SyntheticSolana().next())
    await until(() => stream.of('slot').length > 0, 'slots')
    expect(stream.status).toBeNull()
  })

  it('sends sluice call an answer to a ping that is no update', async () => {
    stage = await GrpcStage.open({ section: { pingMs: 100 } })
    const { token } = stage.provision()
    const answers = callGrpc({
      url: `http://${stage.target}`,
      token,
      ca: null,
      method: 'Subscribe',
      params: { slots: { s: {} } },
      signal: new AbortController().signal,
    })
    const next = answers.next()
    const stream = await open({ slots: { s: {} } })
    await until(() => stream.of('ping').length > 2, 'pings')
    stage.publish(new SyntheticSolana().next())
    expect((await next).value).toMatchObject({ result: { filters: ['s'] }, isUpdate: true })
    await answers.return(undefined)
  })

  it('reads requests that come in pieces or joined', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const session = connect(`http://${stage.target}`)
    const raw = session.request({
      ':method': 'POST',
      ':path': '/geyser.Geyser/Subscribe',
      'content-type': 'application/grpc',
      te: 'trailers',
      'x-token': token,
    })
    const chunks: Buffer[] = []
    raw.on('data', (chunk: Buffer) => chunks.push(chunk))
    const ping = (id: number) => framed(codec.encode('geyser.SubscribeRequest', { ping: { id } }))
    const joined = Buffer.concat([framed(slotsRequest), ping(1), ping(2)])
    for (const byte of joined.subarray(0, 12)) {
      raw.write(Buffer.of(byte))
      await new Promise((resolve) => setImmediate(resolve))
    }
    raw.write(joined.subarray(12))
    const frames = () => readFrames(codec, Buffer.concat(chunks))
    await until(() => frames().length === 2, 'two pongs')
    stage.publish(new SyntheticSolana().next())
    await until(() => frames().length > 2, 'a slot')
    expect(frames()[2]).toEqual({ field: 'slot', filters: ['a'], mark: '1000/0' })
    session.destroy()
  })

  it('meters bytes and updates of the subscription', async () => {
    stage = await GrpcStage.open()
    const issued = stage.provision()
    const stream = await open({ slots: { s: {} } }, issued.token)
    stage.publish(new SyntheticSolana().next())
    await until(() => stream.of('slot').length > 0, 'slots')
    await stage.quota.flush()
    const { days } = stage.store.usage(issued.subscription.id)!
    const frames = stream.raw.reduce((sum, bytes) => sum + bytes.length + 5, 0)
    expect(days.at(-1)).toMatchObject({ bytes: frames, notifications: stream.raw.length })
  })

  it('charges a replaced filter to the budget of the token', async () => {
    const slow = { ...standardPlan, creditsPerSecond: 1, burst: 3 }
    stage = await GrpcStage.open({ plans: { ...builtInPlans, standard: slow } })
    const stream = await open({ slots: { s: {} } })
    for (let count = 0; count < 30; count++) stream.ask({ slots: { [`s${count}`]: {} } })
    await until(() => stream.status !== null, 'a status')
    expect(stream.status?.code).toBe(8)
    // A thousand keys cost as much as a request: here more than the plan ever has at once.
    const long = new Subscription(stage.client(), withToken(stage.provision().token))
    const account = Array.from({ length: 4_000 }, () => '11111111111111111111111111111111')
    long.ask({ accounts: { a: { account } } })
    await until(() => long.status !== null, 'a status')
    expect(long.status?.code).toBe(8)
  })
})

describe('replay', () => {
  it('goes back to a slot, then live, with no gap and no duplicate', async () => {
    stage = await GrpcStage.open()
    const chain = new SyntheticSolana({ seed: 21, transactionsPerSlot: 8 })
    const published = record()
    for (let slot = 0; slot < 20; slot++) stage.publish(chain.next())
    const froms = [1000, 1017]
    const streams: { asked: Asked; from: number; stream: Subscription }[] = []
    const { token } = stage.provision({ plan: 'unlimited' })
    for (const commitment of [0, 1, 2] as const)
      for (const fromSlot of froms) {
        const asked: Asked = { ...everything, commitment }
        const stream = new Subscription(stage.client(), withToken(token))
        stream.ask({ ...requestOf(asked), fromSlot })
        streams.push({ asked, from: fromSlot, stream })
      }
    // The chain does not wait for a replay.
    for (let slot = 0; slot < 15; slot++) {
      stage.publish(chain.next())
      await new Promise((resolve) => setImmediate(resolve))
    }
    // Where a replay ends depends on the turns: statuses come in another order and without a life
    // cycle before that.
    const isLifeCycle = ({ field, mark }: Expected) => field === 'slot' && !/\/[012]$/.test(mark)
    const withoutLifeCycle = (all: Expected[]) => all.filter((one) => !isLifeCycle(one))
    const content = (all: Expected[]) => all.filter(({ field }) => field !== 'slot')
    const marks = (all: Expected[]) =>
      all.flatMap(({ field, mark }) => (field === 'slot' ? [mark] : [])).toSorted()
    for (const { asked, from, stream } of streams) {
      const expected = published[asked.commitment]
        .filter(({ slot }) => slot >= from)
        .flatMap((update) => expectedOf(asked, update))
      const all = withoutLifeCycle(expected)
      await until(() => withoutLifeCycle(got(stream)).length >= all.length, `replay from ${from}`)
      expect(content(got(stream))).toEqual(content(expected))
      expect(marks(withoutLifeCycle(got(stream)))).toEqual(marks(all))
      expect(marks(expected)).toEqual(expect.arrayContaining(marks(got(stream))))
    }
  })

  it.each([0, 1, 2] as const)(
    'begins at a slot that is still to come, at %i',
    async (commitment) => {
      stage = await GrpcStage.open()
      const chain = new SyntheticSolana({ seed: 22, isSkipped: (slot) => slot === 1021 })
      const published = record()
      for (let slot = 0; slot < 20; slot++) stage.publish(chain.next())
      const asked: Asked = { ...everything, commitment }
      const { token } = stage.provision({ plan: 'unlimited' })
      const streams = [1016, 1020, 1022, 1025].map((from) => {
        const stream = new Subscription(stage.client(), withToken(token))
        stream.ask({ ...requestOf(asked), fromSlot: from })
        stream.ask({ ping: { id: 1 } })
        return { from, stream }
      })
      for (const { stream } of streams) await until(() => stream.of('pong').length > 0, 'a pong')
      for (let slot = 0; slot < 15; slot++) {
        stage.publish(chain.next())
        await new Promise((resolve) => setImmediate(resolve))
      }
      const content = (all: Expected[]) => all.filter(({ field }) => field !== 'slot')
      for (const { from, stream } of streams) {
        const due = published[commitment].filter(({ slot }) => slot >= from)
        const expected = content(due.flatMap((update) => expectedOf(asked, update)))
        await until(() => content(got(stream)).length >= expected.length, `slots from ${from}`)
        expect(content(got(stream))).toEqual(expected)
      }
    },
  )

  it.each([
    ['filters of another name', 0, { transactions: { b: {} } }],
    ['blocks as well', 0, { transactions: { b: {} }, blocks: { b: { includeAccounts: true } } }],
    ['another commitment', 1, { transactions: { b: {} } }],
  ])('goes on when a request without a slot asks for %s', async (_, commitment, next) => {
    stage = await GrpcStage.open()
    const chain = new SyntheticSolana({ seed: 23, transactionsPerSlot: 40, dataBytes: 2_000 })
    for (let slot = 0; slot < 40; slot++) stage.publish(chain.next())
    const { token } = stage.provision({ plan: 'unlimited' })
    const stream = new Subscription(stage.client(), withToken(token))
    const transactions = () => stream.of('transaction') as { slot: string | number }[]
    stream.ask({ transactions: { a: {} }, accounts: { a: {} }, fromSlot: 1000 })
    await until(() => transactions().length > 0, 'the first of the replay')
    stream.ask({ ...next, commitment })
    const last = 1039 - commitment
    const has = (slot: number) => transactions().some((one) => Number(one.slot) === slot)
    await until(() => has(last), 'the last slot')
    const slots = Array.from({ length: last - 999 }, (_one, at) => 1000 + at)
    expect(slots.filter((slot) => !has(slot))).toEqual([])
  })

  it('is UNAVAILABLE from a slot on before anything was published, not live', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const stream = new Subscription(stage.client(), withToken(token))
    stream.ask({ slots: { s: {} }, fromSlot: 1000 })
    await until(() => stream.status !== null, 'a status')
    expect(stream.status).toMatchObject({ code: 14, details: 'nothing is kept yet, try again' })
  })

  it('answers OUT_OF_RANGE with the oldest slot, which SubscribeReplayInfo returns, too', async () => {
    stage = await GrpcStage.open({ hub: openSolanaHub({ replaySlots: 5, replayBytesMax: 1e8 }) })
    const chain = new SyntheticSolana()
    const { token } = stage.provision()
    for (let slot = 0; slot < 20; slot++) stage.publish(chain.next())
    const info = await call(stage.client(), 'SubscribeReplayInfo', {}, withToken(token))
    expect(Number(info.value.firstAvailable)).toBe(1015)
    const stream = new Subscription(stage.client(), withToken(token))
    stream.ask({ slots: { s: {} }, fromSlot: 1014 })
    await until(() => stream.status !== null, 'a status')
    expect(stream.status).toMatchObject({
      code: 11,
      details: 'from_slot 1014 is not available, the oldest slot is 1015',
    })
  })
})
