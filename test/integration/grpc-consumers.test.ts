// Clients that are cut and come back, at this gateway and at another one: a consumer continues
// where it committed, with nothing lost and nothing twice.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import type { ConsumerTable } from '../../src/customers/subscriptions/consumers.ts'
import { ConsumerClient, linesOf } from '../testkit/consumer-client.ts'
import { openEverything } from '../testkit/geyser-everything.ts'
import { RelayStage } from '../testkit/geyser-relay.ts'
import { GrpcStage, Subscription, withToken } from '../testkit/grpc-stage.ts'
import { randomOf, SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

const code = {
  invalidArgument: 3,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
}
let folder: string
let node: GrpcStage
/** Two gateways of a cluster: they share where consumers are. */
let gateways: RelayStage[]
let source: SyntheticSolana

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'grpc-consumers-'))
  source = new SyntheticSolana({ seed: 5, finalizedAfter: 8 })
  node = await GrpcStage.open()
  gateways = [await opened(0)]
})

afterEach(async () => {
  for (const gateway of gateways) await gateway.close()
  await node.close()
  rmSync(folder, { recursive: true })
})

function opened(number: number): Promise<RelayStage> {
  const shared = gateways === undefined || number === 0 ? {} : { consumerTable: sharedTable() }
  const logFolder = join(folder, String(number))
  return RelayStage.before(node, { replaySlots: 4, logFolder, ...shared })
}

/** The table of the first gateway, with one subscription. */
function sharedTable(): ConsumerTable {
  const { store } = gateways[0]!.endpoint
  const { id } = store.list()[0]!
  const table = store.consumers
  return {
    open: (_, name) => table.open(id, name),
    commit: async (held) => table.commit(held.map((one) => ({ ...one, id }))),
    list: () => table.list(id),
    remove: (_, name) => table.remove(id, name),
  }
}

function blocksAsSent(update: SolanaUpdate): SolanaUpdate {
  if (update.kind !== 'block') return update
  const last = new Map(update.accounts.map((one) => [String(one.pubkey), one]))
  return { ...update, accounts: [...last.values()] }
}

async function publish(slots: number): Promise<void> {
  for (let count = 0; count < slots; count++) {
    const updates = source.next().map(blocksAsSent)
    node.publish(updates)
    for (const gateway of gateways) await gateway.caughtUp(updates)
  }
}

const tokens = new WeakMap<RelayStage, string>()

function tokenOf(gateway: RelayStage): string {
  const known = tokens.get(gateway) ?? gateway.endpoint.provision({ plan: 'unlimited' }).token
  tokens.set(gateway, known)
  return known
}

const openAt = (client: ConsumerClient, gateway: RelayStage) =>
  client.open(gateway.endpoint.client(), tokenOf(gateway))

const failed = (stream: Subscription) => until(() => stream.status !== null, 'its end')

describe('a consumer', () => {
  it.each([0, 1, 2])(
    'that is cut loses nothing and gets nothing twice, at %i',
    async (commitment) => {
      tokenOf(gateways[0]!)
      gateways.push(await opened(1))
      await publish(2)
      const all = await openEverything(node.client(), tokenOfNode(), { commitment })
      const client = new ConsumerClient('orders', { commitment })
      openAt(client, gateways[0]!)
      await client.commit()
      const random = randomOf(31 + commitment)
      for (let cut = 0; cut < 14; cut++) {
        const updates = source.next().map(blocksAsSent)
        const middle = Math.floor(random() * updates.length)
        node.publish(updates.slice(0, middle))
        if (random() < 0.7) await client.commit()
        node.publish(updates.slice(middle))
        if (random() < 0.5) await client.commit()
        await client.cut()
        if (random() < 0.5) await publish(Math.floor(random() * 8))
        openAt(client, gateways[cut % 2]!)
      }
      await publish(3)
      await all.settled()
      const expected = linesOf(all)
      await until(async () => {
        await client.commit()
        expect(client.stream.status).toBeNull()
        return client.committed.length >= expected.length
      }, 'everything')
      expect(client.committed.toSorted()).toEqual(expected.toSorted())
    },
  )
})

const tokenOfNode = () => node.provision({ plan: 'unlimited' }).token

it('whose place is no longer kept is told the oldest slot', async () => {
  await publish(3)
  const client = new ConsumerClient('a')
  openAt(client, gateways[0]!)
  await client.commit()
  await client.cut()
  const { store } = gateways[0]!.endpoint
  const [id, name] = [store.list()[0]!.id, 'a']
  const position = (await store.consumers.list(id))[0]!.position!
  for (const floor of [17, 90_000]) {
    const { term } = (await store.consumers.open(id, name)) as { term: number }
    const moved = JSON.stringify({ ...JSON.parse(position), floor })
    await store.consumers.commit([{ id, name, term, position: moved }])
    openAt(client, gateways[0]!)
    await failed(client.stream)
    expect(client.stream.status!.code).toBe(code.outOfRange)
    expect(client.stream.status!.details).toBe(
      `the consumer is at slot ${floor}, which is not available: slots 1000 to 1002 are; ` +
        'it begins anew when it is reset',
    )
  }
})

describe('the name of a consumer', () => {
  it('is taken over by the newest stream, also at another gateway', async () => {
    await publish(1)
    tokenOf(gateways[0]!)
    gateways.push(await opened(1))
    await publish(1)
    const [first, second, third] = ['a', 'a', 'a'].map((name) => new ConsumerClient(name))
    openAt(first!, gateways[0]!)
    await first!.commit()
    openAt(second!, gateways[0]!)
    await failed(first!.stream)
    expect(first!.stream.status).toMatchObject({
      code: code.aborted,
      details: 'another stream continues as this consumer, or it was reset',
    })
    await second!.commit()
    openAt(third!, gateways[1]!)
    await failed(second!.stream)
    expect(second!.stream.status!.code).toBe(code.aborted)
    await third!.commit()
  })

  it('ends with its reset', async () => {
    await publish(1)
    const client = new ConsumerClient('a')
    openAt(client, gateways[0]!)
    await client.commit()
    const { store } = gateways[0]!.endpoint
    const { id } = store.list()[0]!
    expect(await store.consumers.list(id)).toMatchObject([{ name: 'a' }])
    expect(await store.consumers.remove(id, 'a')).toBe(1)
    await failed(client.stream)
    expect(client.stream.status!.code).toBe(code.aborted)
    expect(await store.consumers.list(id)).toEqual([])
  })

  it('has few letters, and no other ones', async () => {
    await publish(1)
    for (const name of ['', 'a b', 'x'.repeat(65), 'a/b']) {
      const metadata = withToken(tokenOf(gateways[0]!))
      metadata.set('consumer', name)
      const stream = new Subscription(gateways[0]!.endpoint.client(), metadata)
      stream.ask({ slots: { s: {} } })
      await failed(stream)
      expect(stream.status).toMatchObject({
        code: code.invalidArgument,
        details: 'consumer: 1 to 64 letters, digits or . _ -',
      })
    }
  })

  it('is one of sixteen, until one is reset', async () => {
    await publish(1)
    const open = async (name: string) => {
      const client = new ConsumerClient(name)
      openAt(client, gateways[0]!)
      await client.commit()
      return client
    }
    for (let number = 0; number < 16; number++) await (await open(`c${number}`)).cut()
    const refused = await open('c16')
    expect(refused.stream.status).toMatchObject({
      code: code.resourceExhausted,
      details: 'a subscription has at most 16 consumers: reset one that is not needed',
    })
    const { store } = gateways[0]!.endpoint
    await store.consumers.remove(store.list()[0]!.id, 'c3')
    expect((await open('c16')).stream.status).toBeNull()
  })

  it('is refused where no stream log is kept, and for another commitment', async () => {
    await publish(1)
    const alone = new ConsumerClient('a')
    alone.open(node.client(), tokenOfNode())
    await failed(alone.stream)
    expect(alone.stream.status!.code).toBe(code.failedPrecondition)
    expect(alone.stream.status!.details).toMatch(/^consumers are not available here/)
    const client = new ConsumerClient('a')
    openAt(client, gateways[0]!)
    await client.commit()
    await client.cut()
    const other = new ConsumerClient('a', { commitment: 2 })
    openAt(other, gateways[0]!)
    await failed(other.stream)
    expect(other.stream.status).toMatchObject({
      code: code.failedPrecondition,
      details: 'the position of this consumer is processed',
    })
  })
})

it('a commit names a pong of the stream', async () => {
  await publish(1)
  const client = new ConsumerClient('a')
  const stream = openAt(client, gateways[0]!)
  await client.commit()
  stream.ask({ ping: { id: -9 } })
  await failed(stream)
  expect(stream.status).toMatchObject({
    code: code.invalidArgument,
    details: 'ping -9: no pong 9 of this stream is remembered',
  })
})
