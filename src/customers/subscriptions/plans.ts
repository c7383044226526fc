// Declares the `plans` section of the configuration: how much a subscription may use.
// Built in are `standard` and `unlimited`. A configured plan starts from the values of
// the built-in plan of the same name, else of `standard`. 0 means no limit where its doc states it.
import { group, initialOf, integer, named, numbers, type Values } from '../../base/fields.ts'

const secondCreditsMax = 1_000_000_000
const countMax = 1_000_000
const bytesMax = 1_000_000_000_000

const count = (initial: number, doc: string) => integer({ initial, min: 1, max: countMax, doc })
const limit = (initial: number, of: string) =>
  integer({ initial, min: 0, max: countMax, doc: `${of}; 0 is no limit.` })

const planFields = {
  creditsPerSecond: integer({
    initial: 100,
    min: 0,
    max: secondCreditsMax,
    unit: 'credits/s',
    doc: 'Credits refilled every second; 0 is no limit.',
  }),
  burst: integer({
    initial: 200,
    min: 1,
    max: secondCreditsMax,
    unit: 'credits',
    doc: 'Most credits that can be spent at once: the size of the bucket.',
  }),
  creditsPer30Days: integer({
    initial: 50_000_000,
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    unit: 'credits',
    doc: 'Credits in each 30 days from creation; 0 is no limit.',
  }),
  weights: numbers({
    initial: {
      getMultipleAccounts: 2,
      'getTokenAccounts*': 2,
      getTransaction: 5,
      getSignaturesForAddress: 5,
      getBlock: 5,
      simulateTransaction: 5,
      sendTransaction: 5,
      getProgramAccounts: 25,
    },
    min: 0,
    max: countMax,
    unit: 'credits',
    doc: 'Cost of a call by method; a name may end in *; 1 for every other method.',
  }),
  methodCallsPerSecond: numbers({
    initial: { sendTransaction: 20, getProgramAccounts: 5 },
    min: 1,
    max: countMax,
    unit: 'calls/s',
    doc: 'Rate caps of single methods, in addition to their cost; a name may end in *.',
  }),
  connections: limit(100, 'WebSocket connections at once'),
  subscriptionsPerConnection: count(200, 'WebSocket subscriptions on one connection.'),
  distinctSubscriptions: limit(2000, 'Distinct WebSocket subscriptions over all connections'),
  notificationBytesPerSecond: integer({
    initial: 64_000_000,
    min: 0,
    max: bytesMax,
    unit: 'bytes/s',
    doc: 'Rate of WebSocket notifications, each counted 4,096 bytes larger; 0 is no limit.',
  }),
  streams: limit(20, 'gRPC streams'),
  filterKeys: count(
    100_000,
    'Keys in one list of a gRPC filter (up to `grpc.filters.accountsMax`) or WebSocket one.',
  ),
  callsInFlight: limit(100, 'Calls in flight'),
  batchItems: integer({ initial: 100, min: 1, max: 10_000, doc: 'Calls in one JSON-RPC batch.' }),
  indexer: group('Limits of an indexer query.', {
    timeMs: integer({ initial: 10_000, min: 100, max: 3_600_000, unit: 'ms', doc: 'Run time.' }),
    rows: integer({ initial: 100_000, min: 1, max: 1_000_000_000, doc: 'Rows of the result.' }),
    resultBytes: integer({
      initial: 64_000_000,
      min: 1000,
      max: bytesMax,
      unit: 'bytes',
      doc: 'Size of the result.',
    }),
    memoryBytes: integer({
      initial: 512_000_000,
      min: 16_000_000,
      max: bytesMax,
      unit: 'bytes',
      doc: 'Memory of the engine.',
    }),
    queries: integer({ initial: 2, min: 1, max: 1000, doc: 'Queries at once.' }),
    queued: integer({
      initial: 16,
      min: 0,
      max: 1000,
      doc: 'Queries over that number that wait; more are refused at once.',
    }),
    queueMs: integer({
      initial: 2_000,
      min: 1,
      max: 60_000,
      unit: 'ms',
      doc: 'Longest wait of a query for one before it; then it is refused.',
    }),
  }),
}

export type PlanValues = Values<typeof planFields>

export const standardPlan: PlanValues = initialOf(planFields)

/** Does not limit use; what protects the machine itself (batches, queries) stays bounded. */
export const unlimitedPlan: PlanValues = {
  ...standardPlan,
  creditsPerSecond: 0,
  creditsPer30Days: 0,
  methodCallsPerSecond: {},
  connections: 0,
  subscriptionsPerConnection: 10_000,
  distinctSubscriptions: 0,
  notificationBytesPerSecond: 0,
  streams: 0,
  filterKeys: 1_000_000,
  callsInFlight: 0,
  batchItems: 1000,
  indexer: {
    timeMs: 60_000,
    rows: 1_000_000,
    resultBytes: 256_000_000,
    memoryBytes: 512_000_000,
    queries: 4,
    queued: 64,
    queueMs: 10_000,
  },
}

/** In force where a subscription names a plan that the configuration no longer has. */
export const fallbackPlan = 'standard'

export const builtInPlans: Readonly<Record<string, PlanValues>> = {
  standard: standardPlan,
  unlimited: unlimitedPlan,
}

export const plansSection = named(
  'Plans a subscription can be on.',
  'name',
  group('One plan.', planFields),
  builtInPlans,
)
