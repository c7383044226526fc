// A gateway that remembers a few slots and keeps the rest on disk: from_slot reaches back to all of
// it, also after a restart, with the bytes that the node replays itself.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { openEverything, wordsIn } from '../testkit/geyser-everything.ts'
import { RelayStage } from '../testkit/geyser-relay.ts'
import { call, GrpcStage, type Subscription, withToken } from '../testkit/grpc-stage.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

const chain = () => new SyntheticSolana({ seed: 21, finalizedAfter: 8 })
const unlimited = (stage: GrpcStage) => stage.provision({ plan: 'unlimited' }).token
let folder: string
let node: GrpcStage
let relay: RelayStage

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'grpc-stream-log-'))
  node = await GrpcStage.open()
  relay = await restarted()
})

afterEach(async () => {
  await relay.close()
  await node.close()
  rmSync(folder, { recursive: true })
})

const restarted = () => RelayStage.before(node, { replaySlots: 4, logFolder: folder })

function blocksAsSent(update: SolanaUpdate): SolanaUpdate {
  if (update.kind !== 'block') return update
  const last = new Map(update.accounts.map((one) => [String(one.pubkey), one]))
  return { ...update, accounts: [...last.values()] }
}

async function publish(source: SyntheticSolana, slots: number): Promise<void> {
  for (let count = 0; count < slots; count++) {
    const updates = source.next().map(blocksAsSent)
    node.publish(updates)
    await relay.caughtUp(updates)
  }
}

const countIn = (stream: Subscription) =>
  stream.raw.length - stream.of('pong').length - stream.of('ping').length

/** What the node and the gateway replay from a slot on. */
async function replayed(fromSlot: number, commitment: number, asked: object = {}) {
  const request = { ...asked, fromSlot, commitment }
  const direct = await openEverything(node.client(), unlimited(node), request)
  const { endpoint } = relay
  const through = await openEverything(endpoint.client(), unlimited(endpoint), request)
  await direct.settled()
  await until(() => countIn(through) >= countIn(direct), 'as many updates')
  return { direct: wordsIn(direct.raw), through: wordsIn(through.raw) }
}

it('replays from disk what the node replays, at every commitment, and says how far', async () => {
  await publish(chain(), 50)
  expect(relay.road.hub.oldestSlot).toBeGreaterThan(1040)
  const { endpoint } = relay
  const info = await call(
    endpoint.client(),
    'SubscribeReplayInfo',
    {},
    withToken(unlimited(endpoint)),
  )
  expect(Number(info.value.firstAvailable)).toBe(1000)
  for (const commitment of [0, 1, 2]) {
    const { direct, through } = await replayed(1003, commitment)
    expect(direct.length).toBeGreaterThan(500)
    expect(through).toEqual(direct)
  }
})

it('has what filters of ours add, live and from disk, as the node replays it', async () => {
  const source = chain()
  const accountInclude = source.keys.slice(0, 20).map((key) => encodeBase58(key))
  const asked = {
    accounts: { a: { diffOnly: true } },
    transactions: { t: { accountInclude, blockTime: true, accountStates: true } },
    transactionsStatus: { u: { blockTime: true } },
    ...{ slots: {}, blocks: {} },
  }
  const { endpoint } = relay
  const request = { ...asked, commitment: 1 }
  const live = await openEverything(endpoint.client(), unlimited(endpoint), request)
  await publish(source, 30)
  const { direct, through } = await replayed(1000, 1, asked)
  expect(through).toEqual(direct)
  await until(() => countIn(live) >= direct.length, 'the live updates')
  expect(wordsIn(live.raw)).toEqual(direct)
  const transactions = live.of('transaction')
  for (const { slot, blockTime } of transactions)
    expect(Number(blockTime)).toBe(Math.floor((1_700_000_000_000 + Number(slot) * 400) / 1000))
  const states = transactions.flatMap(({ accountStates }) => accountStates)
  const known = states.filter(({ before }) => before !== null)
  expect(known.length).toBeGreaterThan(20)
  expect(states.length - known.length).toBeLessThanOrEqual(20)
})

it('continues over a restart, with nothing lost and nothing twice', async () => {
  const source = chain()
  await publish(source, 40)
  await relay.close()
  relay = await restarted()
  await publish(source, 30)
  expect(relay.road.streamLog!.oldestSlot).toBe(1000)
  expect(relay.road.streamLog!.counts()).toMatchObject({ isUp: true, resets: 0 })
  for (const commitment of [0, 1, 2]) {
    const { direct, through } = await replayed(1003, commitment)
    expect(through.toSorted()).toEqual(direct.toSorted())
  }
})
