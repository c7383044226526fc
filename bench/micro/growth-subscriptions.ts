// What a notification, a new subscription and its end cost as websocket subscriptions grow.
// Thread: main of the bench process; each size is a process of its own.
// Sockets are left out: what is published is counted, and what a connection does after it is not.
import { systemClock } from '../../src/base/clock.ts'
import { Commitment } from '../../src/base/commitment.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { keyOf } from '../../src/chain/solana/base58.ts'
import { accountUpdate, slotUpdate } from '../../src/chain/solana/received-batch.ts'
import { slotStatus } from '../../src/chain/solana/updates.ts'
import { newestShapes } from '../../src/chain/solana/version.ts'
import { Budget, Plan } from '../../src/customers/quota/budget.ts'
import { unlimitedPlan } from '../../src/customers/subscriptions/plans.ts'
import { Subscriptions } from '../../src/products/websocket/handle.ts'
import { openSolanaHub, publishUpdate } from '../../src/streams/geyser/hub.ts'
import type { Session } from '../../src/streams/pubsub/chain.ts'
import { declareSubscriptionMeters } from '../../src/streams/pubsub/notifier.ts'
import type { SubscriptionParams } from '../../src/streams/pubsub/read-params.ts'
import { growthBench, type OpenWorks } from '../lib/growth.ts'

const stride = 7_919
const view = { encoding: 'base64', dataSlice: null } as const
const window = { window: 0, credits: 0, startsAtMs: 0, endsAtMs: Number.MAX_SAFE_INTEGER }
const absent = Buffer.alloc(32, 5)
const program = Buffer.alloc(32, 9)

export const bench = growthBench({
  name: 'growth-subscriptions',
  question: 'What do more websocket subscriptions cost?',
  axis: 'subscriptions',
  sizes: [10, 100, 1_000, 10_000, 100_000],
  lines: [
    'account update to its subscriber',
    'update without subscriber',
    'update to all, per subscriber',
    'subscribe and unsubscribe',
    'the same, all of one program',
  ],
  file: import.meta.url,
})

export const open: OpenWorks = async (size) => {
  const own = openEngine(size, 100, (index) => accountParams(keyAt(index)))
  const shared = openEngine(size, 1, () => accountParams(keyAt(0)))
  const ofProgram = openEngine(size, 100, programParams)
  let at = 0
  // Another key each time: a Map keeps a deleted key's entry until it is rebuilt.
  let guests = size
  return {
    'account update to its subscriber': own.work(() => {
      at = (at + stride) % size
      own.update(keyAt(at))
      return 1
    }, 1),
    'update without subscriber': own.work(() => {
      own.update(absent)
      return 1
    }, 0),
    'update to all, per subscriber': shared.work(() => {
      shared.update(keyAt(0))
      return size
    }, 1 / size),
    'subscribe and unsubscribe': own.work(() => own.come(accountParams(keyAt(++guests))), 0),
    'the same, all of one program': ofProgram.work(
      () => ofProgram.come(programParams(++guests)),
      0,
    ),
  }
}

function openEngine(
  size: number,
  perConnection: number,
  paramsOf: (index: number) => SubscriptionParams,
) {
  const hub = openSolanaHub({ replaySlots: 0, replayBytesMax: 0 })
  const meters = declareSubscriptionMeters(new Meters())
  const subscriptions = new Subscriptions({ meters, clock: systemClock, log: silentLog })
  const engine = subscriptions.engineOf({
    hub,
    isUp: () => true,
    shapes: () => newestShapes,
    slot: () => 0,
    signatureStatus: async () => null,
    readAccounts: async () => [],
  })
  let published = 0
  let slot = 0
  subscriptions.usePublisher(() => published++)
  let session = sessionOf()
  for (let index = 0; index < size; index++) {
    if (index % perConnection === 0) session = sessionOf()
    engine.subscribe(session, paramsOf(index))
  }
  const visitor = sessionOf()
  return {
    update(pubkey: Uint8Array) {
      const at = { slot: ++slot, createdAtMs: 0 }
      publishUpdate(hub, accountUpdate(at, { ...content, pubkey }))
      publishUpdate(hub, slotUpdate(at, { parent: null, status: slotStatus.processed }))
      publishUpdate(hub, slotUpdate(at, { parent: null, status: slotStatus.finalized }))
    },
    come(params: SubscriptionParams) {
      const feed = engine.subscribe(visitor, params)
      if (typeof feed !== 'string') engine.unsubscribe(visitor, feed.id)
      return 1
    },
    /** `each` is how many notifications an operation publishes. */
    work: (step: () => number, each: number) => ({
      stepsPerTurn: 32,
      step,
      problem(operations: number) {
        const due = Math.round(operations * each)
        const found = published
        published = 0
        return found === due ? undefined : `${found} of ${due} were published`
      },
    }),
  }
}

const content = {
  pubkey: Buffer.alloc(32),
  lamports: 5_000_000_000n,
  owner: Buffer.alloc(32, 7),
  executable: false,
  rentEpoch: 2n ** 64n - 1n,
  data: Buffer.alloc(165, 3),
  writeVersion: 1n,
  txnSignature: null,
}

function keyAt(index: number): Uint8Array {
  const key = Buffer.alloc(32)
  key.writeUInt32BE(index + 1)
  return key
}

function accountParams(key: Uint8Array): SubscriptionParams {
  return { kind: 'account', commitment: Commitment.processed, key: keyOf(key), view }
}

/** One program, and another filter for each. */
function programParams(index: number): SubscriptionParams {
  const filters = [{ kind: 'dataSize', size: index }] as const
  return { kind: 'program', commitment: Commitment.processed, key: keyOf(program), view, filters }
}

function sessionOf(): Session {
  return {
    budget: new Budget('bench', new Plan(unlimitedPlan), window, systemClock),
    notify() {},
    sendNow() {},
    join() {},
    leave() {},
    hasRoom: () => true,
    checkUnsent() {},
    onEnd() {},
  }
}
