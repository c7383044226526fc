// Runs the script of a seed through a gateway's own decisions, under virtual time: the set of nodes,
// the feed with its failover, the slot tracker, the hub, and everything that reads it. What each
// reader has in the end is compared with that of readers of the chain itself.
//
//   nodes ─► feed ─► tracker ─► hub ─► streams, subscriptions, answers, index        equal to
//   chain ────────────────────► hub ─► streams, subscriptions, answers, index
import { expect, vi } from 'vitest'
import { Commitment } from '../../src/base/commitment.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { keyOf } from '../../src/chain/solana/keys.ts'
import type { BlockUpdate, SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { SlotSource } from '../../src/indexer/feed/slot-source.ts'
import { unpackAccounts } from '../../src/indexer/parcels.ts'
import { StreamAnswers } from '../../src/streams/answers/stream-answers.ts'
import { withRetractions } from '../../src/streams/geyser/filter-set.ts'
import { publishUpdate } from '../../src/streams/geyser/hub.ts'
import type { GeyserTarget } from '../../src/upstream/geyser/geyser-client.ts'
import { GeyserFeed } from '../../src/upstream/geyser/geyser-feed.ts'
import type { UpstreamNode } from '../../src/upstream/node-pool/upstream-node.ts'
import { UpstreamSet } from '../../src/upstream/node-pool/upstream-set.ts'
import { apply, applyTexts, contentOf, type Held } from './model-client.ts'
import { SeededCluster, scriptOf, slotMs, stepMs } from './seeded-cluster.ts'
import { streamDeps } from './stream-chain.ts'
import { setSection } from './upstream-sections.ts'
import { codec, type FrameReader, filtersOfAll, ownersOf, VoidStage } from './void-readers.ts'

/** What a run shows besides that it was right. */
export interface SeededOutcome {
  readonly reasons: ReadonlySet<string>
  /** Retractions as `slot/bank reason`. */
  readonly retracted: readonly string[]
  readonly connections: number
  /** Calls that the stream answered, of those that were made. */
  readonly answered: number
  readonly asked: number
}

/** Readers of a hub, all of which take everything. */
class Readers {
  readonly stage: VoidStage
  readonly confirmed
  readonly processed
  /** At confirmed, with everything that filters of ours add. */
  readonly extended
  /** Accounts whose states it has. */
  readonly watched = new Set<string>()
  /** At processed with retractions, writes that changed something. */
  readonly changed
  readonly answers: StreamAnswers
  readonly #source: SlotSource
  readonly #pairs: [name: string, processed: number, confirmed: number][] = []
  readonly #slots: number
  readonly #blocks: number

  constructor(stage: VoidStage, sample: readonly SolanaUpdate[], clock: SeededCluster['clock']) {
    this.stage = stage
    const { hub } = stage
    this.answers = new StreamAnswers(hub, { ...streamDeps, blocks: { bytesMax: 100_000_000 } })
    this.confirmed = stage.stream(filtersOfAll(1))
    this.processed = stage.stream(withRetractions(filtersOfAll(0)))
    const diffOnly = { diffOnly: true }
    for (const one of sample) if (one.kind === 'account') this.watched.add(keyOf(one.pubkey))
    const accountInclude = [...this.watched].map((key) => encodeBase58(Buffer.from(key, 'latin1')))
    const asked = { blockTime: true, accountStates: true, accountInclude }
    this.extended = stage.stream(filtersOfAll(1, asked, diffOnly))
    this.changed = stage.stream(withRetractions(filtersOfAll(0, {}, diffOnly)))
    const pair = (topic: string, filter: unknown) => {
      const at = (config: object) => stage.subscribe(topic, filter, config)
      const retracted = { commitment: 'processed', encoding: 'base64', retractions: true }
      const confirmed = at({ commitment: 'confirmed', encoding: 'base64' })
      this.#pairs.push([`${topic} ${JSON.stringify(filter)}`, at(retracted), confirmed])
    }
    pair('logs', 'allWithVotes')
    pair('transaction', {})
    for (const owner of ownersOf(sample)) pair('program', owner)
    const account = sample.find((one) => one.kind === 'account')
    if (account?.kind === 'account') pair('account', encodeBase58(account.pubkey))
    this.#slots = stage.subscribe('slot', { retractions: true })
    const config = { commitment: 'confirmed', transactionDetails: 'signatures', showRewards: false }
    this.#blocks = stage.subscribe('block', 'all', config)
    this.#source = new SlotSource(undefined, { lost() {}, clock })
    hub.onRestart(() => this.#source.restart())
    hub.listen((commitment, update) => {
      if (commitment === Commitment.confirmed) this.#source.take(update)
    })
  }

  /** What subscriptions hold, by their names: at confirmed, and at processed with retractions. */
  notified(): Record<'confirmed' | 'processed', Record<string, [number, string[]][]>> {
    const held = (id: number) =>
      [...applyTexts(this.stage.notified.get(id) ?? []).slots].map(
        ([slot, texts]): [number, string[]] => [slot, texts.toSorted()],
      )
    const at = (which: 1 | 2) =>
      Object.fromEntries(this.#pairs.map((pair) => [pair[0], held(pair[which])]))
    return {
      processed: { ...at(1), slots: held(this.#slots) },
      confirmed: { ...at(2), blocks: held(this.#blocks) },
    }
  }

  /** What the index is given of each slot. */
  indexed(): [number, unknown][] {
    const slots = new Map<
      number,
      { transactions: string[]; accounts: string[]; block: unknown[] }
    >()
    for (let parcel = this.#source.next(); parcel !== null; parcel = this.#source.next()) {
      if (parcel.feed !== 'slots') continue
      const { slot, block, transactions, accounts } = parcel.content
      const rows = slots.get(slot) ?? { transactions: [], accounts: [], block: [] }
      slots.set(slot, rows)
      rows.transactions.push(...transactions.map((info) => keyOf(info)))
      for (const fact of unpackAccounts(accounts))
        rows.accounts.push(`${keyOf(fact.pubkey)} ${fact.lamports} ${fact.writeVersion}`)
      if (block !== null) rows.block.push(block)
    }
    for (const { transactions, accounts } of slots.values()) {
      transactions.sort()
      accounts.sort()
    }
    return [...slots].sort(([a], [b]) => a - b)
  }

  ask(method: string, ...params: unknown[]): string | null {
    const call = { method, params, paramsText: JSON.stringify(params), id: '1' }
    const found = this.answers.answer(call)
    return found?.answer.kind === 'text' ? found.answer.text : null
  }
}

/** A set of nodes and the feed of its streams, as a gateway has them. */
class SeededGateway {
  readonly readers: Readers
  readonly set: UpstreamSet
  readonly feed: GeyserFeed
  /** By slot: the ids of the banks that were confirmed or finalized. */
  readonly winners = new Map<number, Set<number>>()
  readonly #cluster: SeededCluster

  constructor(cluster: SeededCluster) {
    const { clock, nodes, script, random } = cluster
    this.#cluster = cluster
    const addresses = nodes.map((_, index) => `http://127.0.0.1:${index + 1}`)
    const sections = addresses.map((grpc) => ({ grpc }))
    const section = setSection(sections, { merge: script.merge })
    const set = new UpstreamSet('main', section, { clock, log: silentLog, random })
    this.set = set
    for (const node of set.nodes) node.wasProbed = true
    const stage = new VoidStage({
      slotLimit: () => set.slotLimit(),
      disputed: (name, slot, blockhash) => set.observeBlock(nodeOf(set, name)!, slot, blockhash),
    })
    this.readers = new Readers(stage, cluster.chain, clock)
    this.#listen(stage)
    this.probe()
    this.feed = new GeyserFeed(set, {
      ingest: {
        connect: async ({ address }: GeyserTarget) =>
          nodes[addresses.indexOf(address)]!.connect(clock),
      },
      sink: stage.sink,
      knowsBlockhash: async (blockhash) =>
        [...cluster.metas.values()].some((meta) => meta.blockhash === blockhash),
      clock,
      log: silentLog,
    })
  }

  /** As a node is probed: what it says of its genesis, its slots and its last confirmed block. */
  probe(): void {
    const { nodes, clock } = this.#cluster
    const { processed, confirmed, finalized } = Commitment
    for (const [index, node] of this.set.nodes.entries()) {
      const { ledger } = nodes[index]!
      if (nodes[index]!.isDown(clock.ms)) {
        node.probeFailed('unreached', '')
        this.set.compare()
        continue
      }
      node.observeGenesis(ledger.genesisHash)
      const block = ledger.latestBlockhash(confirmed)
      node.probedSlots(ledger.slot(processed), ledger.slot(finalized), null, block.slot)
      this.set.compare()
      this.set.observeBlock(node, block.slot, block.blockhash)
      node.health.probeAnswered({ isBehind: false })
      this.set.compare()
    }
  }

  stop(): void {
    this.feed.stop()
    this.set.stop()
    this.readers.stage.stop()
    this.readers.answers.heads.stop()
  }

  /** The blocks of the stream are compared with those of the nodes, and banks are kept. */
  #listen({ hub, sink }: VoidStage): void {
    const sources = new Map<number, UpstreamNode | null>()
    hub.listen((commitment, update) => {
      if (update.kind === 'slot') this.#reach(update)
      if (update.kind !== 'blockMeta') return
      const { slot, blockhash } = update
      const sender = nodeOf(this.set, sink.sending) ?? this.set.followed
      if (commitment === Commitment.processed) sources.set(slot, sender)
      const node = commitment === Commitment.confirmed ? sources.get(slot) : null
      if (node == null) return
      if (this.set.section.merge > 1) this.set.followed = node
      this.set.observeBlock(node, slot, blockhash)
    })
  }

  #reach(update: Extract<SolanaUpdate, { readonly kind: 'slot' }>): void {
    const { slot, status, bank } = update
    if (bank === undefined || (status !== 1 && status !== 2)) return
    this.winners.set(slot, (this.winners.get(slot) ?? new Set()).add(bank))
  }
}

const nodeOf = (set: UpstreamSet, name: string | null) =>
  set.nodes.find((node) => node.name === name) ?? null

/** Of the chain up to a slot, and without what reached no commitment yet. */
const upTo = <T>(slots: readonly (readonly [number, T])[], slot: number) =>
  slots.filter(([at]) => at <= slot)

/** A block contains each account once, at the position of its first write. */
function asBlocksAre(update: BlockUpdate): BlockUpdate {
  const last = new Map(update.accounts.map((account) => [keyOf(account.pubkey), account]))
  return { ...update, accounts: [...last.values()] }
}

/** Runs a seed, and fails with what is not as in the chain. Needs fake timers. */
export async function runSeed(seed: number): Promise<SeededOutcome> {
  const cluster = new SeededCluster(scriptOf(seed))
  const gateway = new SeededGateway(cluster)
  const reference = new VoidStage()
  const plain = new Readers(reference, cluster.chain, cluster.clock)
  try {
    for (let steps = 0; !cluster.isDone; steps++) {
      cluster.step()
      cluster.flush()
      if ((steps * stepMs) % slotMs === 0) gateway.probe()
      await vi.advanceTimersByTimeAsync(stepMs)
    }
    for (const update of cluster.chain)
      publishUpdate(reference.hub, update.kind === 'block' ? asBlocksAre(update) : update)
    await vi.advanceTimersByTimeAsync(stepMs)
    return judge(cluster, gateway, plain)
  } finally {
    gateway.stop()
    reference.stop()
    plain.answers.heads.stop()
    cluster.stop()
    vi.clearAllTimers()
  }
}

function judge(cluster: SeededCluster, gateway: SeededGateway, plain: Readers): SeededOutcome {
  const { readers, winners } = gateway
  const last = plain.answers.heads.at(Commitment.finalized)!.slot
  const held = apply(readers.processed)
  const expected = upTo(contentOf(apply(plain.confirmed)), last)
  expect(upTo(contentOf(apply(readers.confirmed)), last), 'grpc at confirmed').toEqual(expected)
  expect(upTo(contentOf(held), last), 'grpc with retractions').toEqual(expected)
  judgeExtended(readers, plain, last)
  judgeSubscriptions(readers, plain, last)
  expect(upTo(readers.indexed(), last), 'the index').toEqual(upTo(plain.indexed(), last))
  judgeBanks(
    held,
    winners,
    expected.map(([slot]) => slot),
  )
  const { asked, answered } = judgeAnswers(cluster, readers, plain, last)
  const { connections } = gateway.feed.counts
  return { reasons: new Set(held.reasons), retracted: held.retracted, connections, asked, answered }
}

/**
 * Block times are the chain's, states before and after a transaction are those of its writes and
 * of the writes before them, and no write is left out that changed something.
 */
function judgeExtended(readers: Readers, plain: Readers, last: number): void {
  judgeStates(readers, plain, last)
  const timed = (reader: FrameReader) =>
    [...sentIn(reader).times].filter(([name]) => Number(name.split(' ')[0]) <= last).toSorted()
  expect(timed(readers.extended), 'block times').toEqual(timed(plain.extended))
  for (const [all, changed] of [
    [readers.confirmed, readers.extended],
    [readers.processed, readers.changed],
  ] as const) {
    const sent = sentIn(changed).writes
    const before = new Map<string, string>()
    for (const [slot, writes] of [...sentIn(all).writes].sort(([a], [b]) => a - b)) {
      if (slot > last) continue
      const left = new Set(sent.get(slot)?.map(({ name }) => name))
      for (const { name, account, state } of writes) {
        if (!left.has(name)) expect(state, `${slot}: not sent`).toBe(before.get(account))
        before.set(account, state)
      }
    }
  }
}

function judgeStates(readers: Readers, plain: Readers, last: number): void {
  const { joined } = sentIn(readers.extended)
  const states = new Map<string, string>()
  const expected = new Map<string, { readonly was: string | undefined; readonly state: string }>()
  for (const [slot, writes] of [...sentIn(plain.confirmed).writes].sort(([a], [b]) => a - b))
    for (const { account, state, by } of writes) {
      if (slot > last) continue
      const name = `${slot} ${by} ${account}`
      // A transaction may write an account twice: before is before the first of them.
      const earlier = expected.get(name)
      const was = earlier === undefined ? states.get(account) : earlier.was
      states.set(account, state)
      if (by !== '' && readers.watched.has(account)) expected.set(name, { was, state })
    }
  for (const [name, { was, state }] of expected) {
    const found = joined.get(name)
    expect(found?.after, `${name}: after`).toBe(state)
    if (found?.before !== null) expect(found?.before, `${name}: before`).toBe(was)
  }
}

interface Write {
  readonly by: string
  readonly name: string
  readonly account: string
  readonly state: string
}

/** Of a stream after its retractions: writes by slot, and `slot signature` with its block time. */
function sentIn(reader: FrameReader) {
  const writes = new Map<number, Write[]>()
  const times = new Map<string, string>()
  const joined = new Map<string, { readonly before: string | null; readonly after: string }>()
  for (const message of reader.messages()) {
    const update = codec.decode<Sent>('geyser.SubscribeUpdate', message)!
    const { account, transaction, retraction } = update
    if (retraction) writes.delete(Number(retraction.slot))
    if (transaction) {
      const { slot, blockTime } = transaction
      const name = `${slot} ${keyOf(transaction.transaction.signature)}`
      times.set(name, String(blockTime))
      for (const { pubkey, before, after } of transaction.accountStates) {
        const states = { before: before ? stateOf(before) : null, after: stateOf(after!) }
        joined.set(`${name} ${keyOf(pubkey)}`, states)
      }
    }
    if (!account) continue
    const { pubkey, writeVersion, txnSignature } = account.account
    const slot = Number(account.slot)
    const own = { account: keyOf(pubkey), state: stateOf(account.account) }
    const by = txnSignature ? keyOf(Uint8Array.from(txnSignature)) : ''
    const write = { name: `${keyOf(pubkey)} ${writeVersion}`, by, ...own }
    writes.set(slot, [...(writes.get(slot) ?? []), write])
  }
  return { writes, times, joined }
}

const stateOf = ({ lamports, owner, data }: SentState) =>
  `${lamports} ${keyOf(owner)} ${keyOf(Uint8Array.from(data))}`

type SentState = Record<'pubkey' | 'owner' | 'data', Uint8Array> &
  Record<'lamports' | 'writeVersion', unknown> & { readonly txnSignature?: Uint8Array }

/** 64-bit numbers have a text. */
interface Sent {
  readonly account?: {
    readonly slot: unknown
    readonly account: SentState
  }
  readonly transaction?: {
    readonly slot: unknown
    readonly blockTime: unknown
    readonly transaction: { readonly signature: Uint8Array }
    readonly accountStates: readonly {
      readonly pubkey: Uint8Array
      readonly before?: SentState | null
      readonly after?: SentState | null
    }[]
  }
  readonly retraction?: { readonly slot: unknown }
}

function judgeSubscriptions(readers: Readers, plain: Readers, last: number): void {
  const [ours, theirs] = [readers.notified(), plain.notified()]
  for (const [name, slots] of Object.entries(theirs.confirmed)) {
    const expected = upTo(slots, last)
    expect(upTo(ours.confirmed[name]!, last), `${name} at confirmed`).toEqual(expected)
    if (ours.processed[name] !== undefined)
      expect(upTo(ours.processed[name], last), `${name} with retractions`).toEqual(expected)
  }
  // The root in them is that of the moment.
  const parents = (slots: readonly [number, string[]][]) =>
    upTo(slots, last).map(([slot, texts]) => [slot, texts.map((text) => JSON.parse(text).parent)])
  expect(parents(ours.processed.slots!), 'slots').toEqual(parents(theirs.processed.slots!))
}

/** A client that keys by slot and bank sees one winner of each slot, which is never taken back. */
function judgeBanks(
  { retracted }: Held,
  winners: ReadonlyMap<number, ReadonlySet<number>>,
  slots: readonly number[],
): void {
  const names = retracted.map((line) => line.split(' ')[0]!)
  expect(new Set(names).size, 'each bank is retracted once').toBe(names.length)
  for (const slot of slots) {
    const ids = [...(winners.get(slot) ?? [])]
    expect(ids.length, `winners of ${slot}`).toBe(1)
    expect(names, `the winner of ${slot}`).not.toContain(`${slot}/${ids[0]}`)
  }
}

function judgeAnswers(cluster: SeededCluster, readers: Readers, plain: Readers, last: number) {
  const calls: [string, ...unknown[]][] = []
  const version = { maxSupportedTransactionVersion: 0 }
  for (const update of cluster.chain) {
    if (update.slot > last) continue
    const config = { ...version, commitment: 'confirmed' }
    if (update.kind === 'blockMeta') calls.push(['getBlock', update.slot, config])
    if (update.kind !== 'transaction' || update.index > 0) continue
    const signature = encodeBase58(update.signature)
    calls.push(['getTransaction', signature, { ...config, commitment: 'finalized' }])
    calls.push(['getSignatureStatuses', [signature]])
  }
  // Nodes differ in their heads, but not in what is there.
  for (const commitment of ['confirmed', 'finalized']) {
    const { context, value } = JSON.parse(readers.ask('getLatestBlockhash', { commitment })!)
    expect(value.blockhash).toBe(cluster.metas.get(context.slot)!.blockhash)
    expect(context.slot).toBeGreaterThanOrEqual(last)
  }
  let answered = 0
  for (const call of calls) {
    const text = readers.ask(...call)
    if (text === null) continue
    answered++
    expect(text, call.join(' ')).toBe(plain.ask(...call))
  }
  return { asked: calls.length, answered }
}
