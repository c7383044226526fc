// Readers of the chain world: everything that reads a hub, and the comparison of those behind a
// gateway with those of the chain itself.
import { Commitment } from '../../src/base/commitment.ts'
import { encodeBase58, keyOf } from '../../src/chain/solana/base58.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { unpackAccounts } from '../../src/indexer/engine.ts'
import { SlotSource } from '../../src/indexer/feed/slot-source.ts'
import { StreamAnswers } from '../../src/streams/answers/stream-answers.ts'
import { withRetractions } from '../../src/streams/geyser/filter-set.ts'
import { apply, applyTexts, contentOf, type Held } from '../testkit/model-client.ts'
import type { SeededCluster } from '../testkit/seeded-cluster.ts'
import { streamDeps } from '../testkit/stream-chain.ts'
import {
  codec,
  type FrameReader,
  filtersOfAll,
  ownersOf,
  type VoidStage,
} from '../testkit/void-readers.ts'
import { type Counts, check, same } from './world.ts'

/** Readers of a hub, all of which take everything. */
export class Readers {
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
  readonly #roots: number
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
    this.#roots = stage.subscribe('root')
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

  /** In the order in which they were notified. */
  roots(): number[] {
    const texts = this.stage.notified.get(this.#roots) ?? []
    return texts.map((text) => Number(JSON.parse(text).params.result))
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

/** Slots that are compared: from what nodes could replay to what was finalized. */
interface Range {
  readonly from: number
  readonly to: number
}

const isWithin = (slot: number, { from, to }: Range) => slot >= from && slot <= to

export interface Judged {
  readonly cluster: SeededCluster
  /** Behind the gateway, and of the chain itself. */
  readonly readers: Readers
  readonly plain: Readers
  /** By slot: the ids of the banks that were confirmed or finalized. */
  readonly winners: ReadonlyMap<number, ReadonlySet<number>>
  /** At confirmed, each from a slot in the past to the end. */
  readonly past: readonly (readonly [fromSlot: number, FrameReader])[]
}

/** Fails with what is not as in the chain. */
export function judge({ cluster, readers, plain, winners, past }: Judged): Counts {
  const to = plain.answers.heads.at(Commitment.finalized)!.slot
  const range = { from: cluster.window.promised, to }
  const held = apply(readers.processed)
  const expected = within(contentOf(apply(plain.confirmed)), range)
  same(within(contentOf(apply(readers.confirmed)), range), expected, 'grpc at confirmed')
  same(within(contentOf(held), range), expected, 'grpc with retractions')
  for (const [fromSlot, reader] of past) {
    const own = { from: Math.max(fromSlot, range.from), to }
    same(within(contentOf(apply(reader)), own), within(expected, own), `grpc from ${fromSlot}`)
  }
  judgeExtended(readers, plain, range)
  judgeSubscriptions(readers, plain, range)
  same(within(readers.indexed(), range), within(plain.indexed(), range), 'the index')
  judgeBanks(
    held,
    winners,
    expected.map(([slot]) => slot),
  )
  const { asked, answered } = judgeAnswers(cluster, readers, plain, range)
  const reasons = Object.fromEntries(held.reasons.map((reason) => [reason, 0]))
  for (const reason of held.reasons) reasons[reason]!++
  return { ...reasons, asked, answered }
}

/**
 * Block times are the chain's, states before and after a transaction are those of its writes and
 * of the writes before them, and no write is left out that changed something.
 */
function judgeExtended(readers: Readers, plain: Readers, range: Range): void {
  judgeStates(readers, plain, range)
  const timed = (reader: FrameReader) =>
    [...sentIn(reader).times]
      .filter(([name]) => isWithin(Number(name.split(' ')[0]), range))
      .toSorted()
  same(timed(readers.extended), timed(plain.extended), 'block times')
  for (const [all, changed] of [
    [readers.confirmed, readers.extended],
    [readers.processed, readers.changed],
  ] as const) {
    const sent = sentIn(changed).writes
    const before = new Map<string, string>()
    for (const [slot, writes] of [...sentIn(all).writes].sort(([a], [b]) => a - b)) {
      if (slot > range.to) continue
      const left = new Set(sent.get(slot)?.map(({ name }) => name))
      for (const { name, account, state } of writes) {
        if (!left.has(name)) same(state, before.get(account), `${slot}: not sent`)
        before.set(account, state)
      }
    }
  }
}

function judgeStates(readers: Readers, plain: Readers, range: Range): void {
  const { joined } = sentIn(readers.extended)
  const states = new Map<string, string>()
  const expected = new Map<string, { readonly was: string | undefined; readonly state: string }>()
  for (const [slot, writes] of [...sentIn(plain.confirmed).writes].sort(([a], [b]) => a - b))
    for (const { account, state, by } of writes) {
      if (slot > range.to) continue
      const name = `${slot} ${by} ${account}`
      // A transaction may write an account twice: before is before the first of them.
      const earlier = expected.get(name)
      const was = earlier === undefined ? states.get(account) : earlier.was
      states.set(account, state)
      if (by !== '' && slot >= range.from && readers.watched.has(account))
        expected.set(name, { was, state })
    }
  for (const [name, { was, state }] of expected) {
    const found = joined.get(name)
    same(found?.after, state, `${name}: after`)
    if (found?.before !== null) same(found?.before, was, `${name}: before`)
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

function judgeSubscriptions(readers: Readers, plain: Readers, range: Range): void {
  const [ours, theirs] = [readers.notified(), plain.notified()]
  for (const [name, slots] of Object.entries(theirs.confirmed)) {
    const expected = within(slots, range)
    same(within(ours.confirmed[name]!, range), expected, `${name} at confirmed`)
    if (ours.processed[name] !== undefined)
      same(within(ours.processed[name], range), expected, `${name} with retractions`)
  }
  // The root in them is that of the moment.
  const parents = (slots: readonly [number, string[]][]) =>
    within(slots, range).map(([slot, texts]) => [
      slot,
      texts.map((text) => JSON.parse(text).parent),
    ])
  same(parents(ours.processed.slots!), parents(theirs.processed.slots!), 'slots')
  const rooted = (one: Readers) => one.roots().filter((slot) => isWithin(slot, range))
  same(rooted(readers), rooted(plain), 'roots')
}

/** A client that keys by slot and bank sees one winner of each slot, which is never taken back. */
function judgeBanks(
  { retracted }: Held,
  winners: ReadonlyMap<number, ReadonlySet<number>>,
  slots: readonly number[],
): void {
  const names = retracted.map((line) => line.split(' ')[0]!)
  same(new Set(names).size, names.length, 'each bank is retracted once')
  for (const slot of slots) {
    const ids = [...(winners.get(slot) ?? [])]
    same(ids.length, 1, `winners of ${slot}`)
    check(!names.includes(`${slot}/${ids[0]}`), `the winner of ${slot} was taken back`)
  }
}

function judgeAnswers(
  { chain, metas }: SeededCluster,
  readers: Readers,
  plain: Readers,
  range: Range,
) {
  const calls: [string, ...unknown[]][] = []
  const version = { maxSupportedTransactionVersion: 0 }
  for (const update of chain) {
    if (!isWithin(update.slot, range)) continue
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
    same(value.blockhash, metas.get(context.slot)!.blockhash, `blockhash at ${commitment}`)
    check(context.slot >= range.to, `the latest blockhash at ${commitment} is too old`)
  }
  let answered = 0
  for (const call of calls) {
    const text = readers.ask(...call)
    if (text === null) continue
    answered++
    same(text, plain.ask(...call), call.join(' '))
  }
  return { asked: calls.length, answered }
}

/** Of the slots that are compared. */
const within = <T>(slots: readonly (readonly [number, T])[], range: Range) =>
  slots.filter(([slot]) => isWithin(slot, range))
