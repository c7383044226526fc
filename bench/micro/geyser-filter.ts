// What an update costs when 1,000 streams each watch an account of their own.
// Thread: main of the bench process.

import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { keyOf } from '../../src/chain/solana/keys.ts'
import { accountUpdate } from '../../src/chain/solana/update-build.ts'
import { loadCodec, type SubscribeRequest } from '../../src/streams/geyser/codec.ts'
import { compileFilters } from '../../src/streams/geyser/filter-compile.ts'
import { Matcher } from '../../src/streams/geyser/matcher.ts'
import { SlabPool } from '../../src/streams/geyser/slab.ts'
import { SubscriberGroup } from '../../src/streams/geyser/subscriber-group.ts'
import { SyntheticSolana } from '../../test/testkit/synthetic-solana.ts'
import type { Bench } from '../lib/bench.ts'
import { singleFunction } from '../lib/single-function.ts'

const streams = 1_000
const updatesEach = 1_000
// One account in ten is watched by somebody.
const chain = new SyntheticSolana({ accounts: streams * 10 })
const codec = loadCodec()
const limits = {
  filtersMax: 1,
  accountsMax: 1,
  ownersMax: 1,
  dataSlicesMax: 0,
  cuckooBytesMax: 0,
  any: false,
  accountReject: new Set<string>(),
  ownerReject: new Set<string>(),
}
const sets = chain.keys.slice(0, streams).map(watching)
const updates = Array.from({ length: updatesEach }, (_, index) =>
  accountUpdate(
    { slot: 1, createdAtMs: 1_700_000_000_000 },
    chain.account(chain.keys[(index * 7919) % chain.keys.length]!, null),
  ),
)
const expected = updates.filter(({ pubkey }) => chain.keys.indexOf(pubkey) < streams).length

let delivered = 0
let rounds = 0
const sink = {
  encoding: null,
  take(runs: readonly { readonly slab: { release(): void } | null }[], _: number, frames: number) {
    delivered += frames
    for (const { slab } of runs) slab?.release()
  },
}
const pool = new SlabPool()
const matcher = new Matcher()
const groups = sets.map((set) => {
  const group = new SubscriberGroup(set, pool, (dirty) => dirtyGroups.push(dirty))
  group.sinks.add(sink)
  matcher.add(group)
  return group
})
const dirtyGroups: SubscriberGroup[] = []

const loop = 'a loop over all filters'
const index = 'the index, matched and framed'

export const bench: Bench = {
  name: 'geyser-filter',
  question: 'What does an update cost with 1,000 streams that watch an account each?',
  cores: 1,
  baseline: singleFunction({
    name: loop,
    callsEach: updatesEach,
    call() {
      for (const { pubkey } of updates) {
        const key = keyOf(pubkey)
        for (const set of sets) if (set.accounts[0]!.accounts.has(key)) delivered++
      }
      rounds++
    },
    evidence,
  }),
  candidates: [
    singleFunction({
      name: index,
      callsEach: updatesEach,
      call() {
        for (const update of updates) matcher.deliver(update)
        for (const group of dirtyGroups) group.flush()
        dirtyGroups.length = 0
        rounds++
      },
      evidence,
    }),
  ],
  goals: [{ contender: index, to: loop, figure: 'opsPerSecond', atLeast: 10 }],
  verify({ evidence: seen }) {
    const { each } = seen as { each: number }
    return each === expected ? undefined : `${each} of ${expected} updates were delivered`
  },
}

function evidence() {
  const each = delivered / rounds
  delivered = rounds = 0
  return { each, groups: groups.length }
}

function watching(key: Uint8Array) {
  const request = { accounts: { mine: { account: [encodeBase58(key)] } } }
  const type = 'geyser.SubscribeRequest'
  const bytes = codec.encode(type, request)
  const compiled = compileFilters(codec.decode<SubscribeRequest>(type, bytes)!, limits)
  if (!compiled.ok) throw new Error(compiled.refusal.message)
  return compiled.value
}
