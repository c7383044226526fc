// What a gRPC update costs as distinct filters grow, each with a stream of its own.
// Thread: main of the bench process; each size is a process of its own.
import { encodeBase58, keyOf } from '../../src/chain/solana/base58.ts'
import { accountUpdate } from '../../src/chain/solana/received-batch.ts'
import { loadCodec, type SubscribeRequest } from '../../src/streams/geyser/codec.ts'
import { compileFilters } from '../../src/streams/geyser/filter-compile.ts'
import { SlabPool, SubscriberGroup } from '../../src/streams/geyser/frame.ts'
import { Matcher } from '../../src/streams/geyser/matcher.ts'
import { growthBench, type OpenWorks, type Work } from '../lib/growth.ts'

const codec = loadCodec()
const owner = Buffer.alloc(32, 7)
const stride = 7_919
const sparesMax = 4_096
const limits = {
  filtersMax: 1,
  accountsMax: 100_000,
  ownersMax: 1,
  dataSlicesMax: 0,
  cuckooBytesMax: 0,
  any: true,
  accountReject: new Set<string>(),
  ownerReject: new Set<string>(),
}

/** Up to 100,000 keys. */
const keysPerSize = 10
const changedKeys = 10
const keysLine = `${changedKeys} keys come or go in a filter of ${keysPerSize} times as many keys`

export const bench = growthBench({
  name: 'growth-filters',
  question: 'What do more distinct gRPC filters cost?',
  axis: 'distinct filters, one stream each',
  sizes: [1, 10, 100, 1_000, 10_000],
  lines: [
    'update of a watched account',
    'update of no watched account',
    'one owner, other bytes each',
    'stream comes and goes',
    keysLine,
  ],
  file: import.meta.url,
})

export const open: OpenWorks = async (size) => {
  const byAccount = openMatcher(size, (index) => ({ account: [encodeBase58(keyAt(index))] }))
  const byBytes = openMatcher(size, (index) => ({
    owner: [encodeBase58(owner)],
    filters: [{ memcmp: { offset: 0n, bytes: numberBytes(index) } }],
  }))
  // Another key each time: a Map keeps a deleted key's entry until it is rebuilt.
  const spares = Array.from({ length: sparesMax }, (_, index) =>
    groupOf({ account: [encodeBase58(keyAt(size + 1 + index))] }, byAccount),
  )
  const watched = openMatcher(1, () => ({
    account: Array.from({ length: size * keysPerSize }, (_, index) => encodeBase58(keyAt(index))),
  }))
  let at = 0
  let spareAt = 0
  const next = () => {
    at = (at + stride) % size
    return at
  }
  return {
    'update of a watched account': byAccount.work(() => updateOf(keyAt(next()), 0), 1),
    'update of no watched account': byAccount.work(() => updateOf(keyAt(size), 0), 0),
    'one owner, other bytes each': byBytes.work(() => updateOf(keyAt(0), next()), 1),
    'stream comes and goes': {
      stepsPerTurn: 32,
      step() {
        const spare = spares[spareAt++ % sparesMax]!
        byAccount.matcher.add(spare)
        byAccount.matcher.remove(spare)
        return 1
      },
    },
    [keysLine]: changingKeys(watched, size * keysPerSize),
  }
}

/** Each step adds keys, or removes those of the step before, in a slot of its own. */
function changingKeys({ matcher, first }: Opened, size: number): Work {
  let slot = 1
  const none = new Set<string>()
  return {
    stepsPerTurn: 32,
    step() {
      const round = slot >> 1
      const keys = new Set<string>()
      for (let index = 0; index < changedKeys; index++)
        keys.add(keyOf(keyAt(size + round * changedKeys + index)))
      const delta = slot % 2 === 0 ? { add: keys, remove: none } : { add: none, remove: keys }
      matcher.changeKeys(first!, [{ kind: 'accounts', list: 'accounts', ordinal: 0, delta }])
      matcher.deliver(updateOf(owner, 0, ++slot))
      return 1
    },
  }
}

interface Opened {
  first: SubscriberGroup | null
  readonly matcher: Matcher
  readonly pool: SlabPool
  readonly dirty: SubscriberGroup[]
  delivered: number
  work(update: () => ReturnType<typeof updateOf>, each: number): Work
}

function openMatcher(size: number, accountsOf: (index: number) => object): Opened {
  const opened: Opened = {
    first: null,
    matcher: new Matcher(),
    pool: new SlabPool(),
    dirty: [],
    delivered: 0,
    work: (update, each) => ({
      stepsPerTurn: 32,
      step() {
        opened.matcher.deliver(update())
        for (const group of opened.dirty) group.flush()
        opened.dirty.length = 0
        return 1
      },
      problem(operations) {
        const { delivered } = opened
        opened.delivered = 0
        const isRight = delivered === operations * each
        return isRight ? undefined : `${delivered} deliveries of ${operations} updates`
      },
    }),
  }
  for (let index = 0; index < size; index++) {
    const group = groupOf(accountsOf(index), opened)
    opened.first ??= group
    opened.matcher.add(group)
  }
  return opened
}

function groupOf(accounts: object, opened: Opened): SubscriberGroup {
  const type = 'geyser.SubscribeRequest'
  const bytes = codec.encode(type, { accounts: { mine: accounts } })
  const compiled = compileFilters(codec.decode<SubscribeRequest>(type, bytes)!, limits)
  if (!compiled.ok) throw new Error(compiled.refusal.message)
  const group = new SubscriberGroup(compiled.value, opened.pool, (one) => opened.dirty.push(one))
  group.sinks.add({
    encoding: null,
    take(runs, _, frames) {
      opened.delivered += frames
      for (const { slab } of runs) slab?.release()
    },
  })
  return group
}

function updateOf(pubkey: Uint8Array, marked: number, slot = 1) {
  const data = Buffer.alloc(165, 3)
  numberBytes(marked).copy(data)
  return accountUpdate(
    { slot, createdAtMs: 0 },
    {
      pubkey,
      lamports: 5_000_000_000n,
      owner,
      executable: false,
      rentEpoch: 0n,
      data,
      writeVersion: 1n,
      txnSignature: null,
    },
  )
}

/** Spread over the first bytes, as real keys are. */
function keyAt(index: number): Buffer {
  const key = Buffer.alloc(32)
  key.writeUInt32BE(Math.imul(index + 1, 0x9e3779b1) >>> 0)
  key.writeUInt32BE(index, 4)
  return key
}

function numberBytes(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
