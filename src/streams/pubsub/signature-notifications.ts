// Sends the notifications of signatures, each once, whether the stream or a node reports it first.
//
//   stream: transaction at a commitment ─┐
//   stream: seen in the last slots ──────┤
//   node: getSignatureStatuses, if not ──┤
//   log: from a slot that was named ─────┴─► 20 ms after the answer ─► received, landed ─► end
//   confirmed block above the last valid height, and none of these has it ─► expired ─► end
//
// With retractions a signature at processed ends when it is confirmed: until then its landing may
// be retracted, and another one follows.
import type { Clock } from '../../base/clock.ts'
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import { bytesOf, keyOf } from '../../chain/solana/base58.ts'
import { errText } from '../../chain/solana/ui-transaction.ts'
import {
  type BlockMetaUpdate,
  endsBank,
  type RetractionUpdate,
  type SlotUpdate,
  type SolanaUpdate,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import type { ReplaySource } from '../hub/hub.ts'
import type { LandedSignature, PubsubChain, Session } from './chain.ts'
import { retractedText } from './cursor-feeds.ts'
import type { Feed, FeedIndex, FeedRegistry } from './feed.ts'
import type { Notifier, SubscriptionMeters } from './notifier.ts'
import { hasRetractions, type SignatureParams } from './read-params.ts'

/**
 * Between the answer to a subscribe and the first notification. A client that gets both in one read
 * may not listen yet and lose the second (kit does), and a signature is notified only once.
 */
const AFTER_ANSWER_MS = 20
/** Longest wait of a notification, however many subscribe meanwhile. */
const WAIT_MS_MAX = 100
/**
 * Between two looks at a signature that is known, while nodes do not answer, or they and the stream
 * have not reached its commitment. The stream may have passed it just before the subscribe.
 */
const LOOKUP_MS = 400
const LOOKUP_MS_MAX = 10_000
/** After so many of them the waits double. */
const QUICK_LOOKUPS = 5
/** Over more than the life of a blockhash: the rest is told by the stream or never. */
const LOOKUPS_MAX = 20
/**
 * Slots whose transactions are known here. A node has a status when its slot is complete, the
 * stream has the transaction before; the hub keeps the same updates in memory for longer.
 */
const SEEN_SLOTS_MAX = 32

type SignatureFeed = Feed<SignatureParams>

interface Landing {
  readonly slot: number
  readonly err: string
  readonly isConfirmed: boolean
}

interface SignatureState {
  /** When it was last subscribed to. */
  joinedMs: number
  /** Result of the `receivedSignature` notification once it was sent. */
  received: string | null
  /** Sends that wait until AFTER_ANSWER_MS, in order; null when none waits. */
  waiting: (() => void)[] | null
  /** With retractions: what was sent, or waits to be, and may be retracted. */
  landing: Landing | null
  /** Result of its notification once it was sent. */
  landed: string | null
  /** Landings on other forks, by slot: one follows where the first is retracted. */
  readonly others: Map<number, Landing>
}

/** Where it has landed; `text` is the error as it is sent. */
interface Found extends LandedSignature {
  readonly text?: string
}

interface SeenSlot {
  /** Processed transactions by signature. */
  readonly transactions: Map<string, TransactionUpdate>
  reached: Commitment
}

export interface SignatureNotificationsDeps {
  readonly chain: PubsubChain
  readonly index: FeedIndex
  readonly registry: FeedRegistry
  readonly notifier: Notifier
  readonly meters: SubscriptionMeters
  readonly clock: Clock
}

export class SignatureNotifications {
  readonly #deps: SignatureNotificationsDeps
  readonly #states = new WeakMap<SignatureFeed, SignatureState>()
  readonly #seen = new Map<number, SeenSlot>()
  /** Feeds with retractions that have a landing. */
  readonly #unconfirmed = new Set<SignatureFeed>()
  /** Feeds whose transaction expires. */
  readonly #expiring = new Set<SignatureFeed>()
  readonly #search: SignatureSearch

  constructor(deps: SignatureNotificationsDeps) {
    this.#deps = deps
    this.#search = new SignatureSearch(deps.chain)
  }

  /** A connection has subscribed; its answer is sent after this returns. */
  joined(feed: SignatureFeed, session: Session): void {
    const { notifier, clock } = this.#deps
    const known = this.#states.get(feed)
    const state = known ?? newState()
    state.joinedMs = clock.monotonicMs()
    this.#states.set(feed, state)
    const { received, landed } = state
    this.#send(feed, () => {
      if (!feed.shares.has(session)) return
      if (received !== null) notifier.sendTo(session, feed, received)
      // It may have been retracted meanwhile.
      if (landed !== null && state.landed === landed) notifier.sendTo(session, feed, landed)
    })
    // The stream notifies of all that follows, so one look at what was before is enough.
    if (known !== undefined) return
    void this.#lookUp(feed)
    if (feed.params.expiresAt !== undefined) this.#expiring.add(feed)
  }

  /** A block was confirmed: what could land up to a lower height has, or never will. */
  takeHeight({ slot, blockHeight }: BlockMetaUpdate): void {
    // A copy: those that may still expire come back.
    for (const feed of [...this.#expiring]) {
      const isOver = feed.shares.size === 0
      const isDue = blockHeight !== null && blockHeight > feed.params.expiresAt!
      if (isOver || isDue) this.#expiring.delete(feed)
      if (isDue && !isOver) void this.#expire(feed, slot, blockHeight)
    }
  }

  take(commitment: Commitment, update: TransactionUpdate): void {
    const { index, meters } = this.#deps
    const { signatures } = index.at(commitment)
    const key = keyOf(update.signature)
    if (commitment === Commitment.processed) this.#remember(key, update)
    const isFirstSight = commitment === Commitment.processed && !index.received.isEmpty
    if (!isFirstSight && signatures.isEmpty) return
    const createdAtMs = commitment === Commitment.processed ? update.createdAtMs : null
    const { slot } = update
    if (isFirstSight)
      for (const feed of index.received.find(key)) {
        meters.examined++
        this.#received(feed, slot, createdAtMs)
      }
    for (const feed of signatures.find(key)) {
      meters.examined++
      const isConfirmed = commitment >= Commitment.confirmed
      this.#landed(feed, landingOf(update, isConfirmed), createdAtMs)
    }
  }

  restart(): void {
    this.#seen.clear()
  }

  async #expire(feed: SignatureFeed, slot: number, blockHeight: number): Promise<void> {
    const found = this.#seenStatus(feed.params.key) ?? (await this.#find(feed))
    if (feed.shares.size === 0) return
    if (found !== null) {
      // One of a fork may still expire.
      if (found === 'unavailable' || found.commitment < Commitment.confirmed)
        this.#expiring.add(feed)
      return
    }
    const heights = `"lastValidBlockHeight":${feed.params.expiresAt},"blockHeight":${blockHeight}`
    this.#send(feed, () => {
      const result = `{"context":{"slot":${slot}},"value":{"expired":{${heights}}}}`
      this.#deps.notifier.send(feed, result, slot)
      this.#deps.registry.finish(feed)
    })
  }

  /** What nodes and the log know of it. */
  async #find({ params, shares }: SignatureFeed): Promise<Found | 'unavailable' | null> {
    const { chain } = this.#deps
    const { key, fromSlot, expiresAt } = params
    const signature = bytesOf(key)
    const withHistory = fromSlot !== undefined || expiresAt !== undefined
    const status = withHistory ? await chain.signatureStatus(signature, true) : 'unavailable'
    // Not every node keeps a history.
    const known = status === 'unavailable' ? await chain.signatureStatus(signature) : status
    if (known !== null || fromSlot === undefined) return known
    return this.#search.find(params, fromSlot, () => shares.size > 0)
  }

  /** What landed in the slot has not, but what is restated. */
  retract(update: RetractionUpdate): void {
    this.#seen.delete(update.slot)
    const restated = new Map<string, TransactionUpdate>()
    for (const one of update.restated)
      if (one.kind === 'transaction') restated.set(keyOf(one.signature), one)
    for (const [key, one] of restated) this.#remember(key, one)
    // A copy: those that land again come back.
    for (const feed of [...this.#unconfirmed]) {
      const state = this.#states.get(feed)!
      const again = restated.get(feed.params.key)
      if (again === undefined) state.others.delete(update.slot)
      if (state.landing?.slot !== update.slot) continue
      state.landing = null
      this.#unconfirmed.delete(feed)
      this.#send(feed, () => {
        state.landed = null
        this.#deps.notifier.send(feed, retractedText(update), update.slot)
      })
      const next = again === undefined ? takeOther(state) : landingOf(again)
      if (next !== undefined) this.#landed(feed, next, null)
    }
  }

  /** The transactions of a slot that was abandoned, or whose bank was replaced, never landed. */
  takeSlot({ slot, status }: SlotUpdate): void {
    if (status === Commitment.confirmed) this.#confirm(slot)
    const seen = this.#seen.get(slot)
    if (seen === undefined) return
    if (endsBank(status)) this.#seen.delete(slot)
    else if (isCommitment(status) && status > seen.reached) seen.reached = status
  }

  #confirm(slot: number): void {
    for (const feed of this.#unconfirmed) {
      const { landing, others } = this.#states.get(feed)!
      const other = others.get(slot)
      if (other !== undefined) others.set(slot, { ...other, isConfirmed: true })
      if (landing?.slot !== slot) continue
      this.#unconfirmed.delete(feed)
      this.#send(feed, () => this.#deps.registry.finish(feed))
    }
  }

  #remember(key: string, update: TransactionUpdate): void {
    const { processed: reached } = Commitment
    const seen = this.#seen.get(update.slot) ?? { transactions: new Map(), reached }
    seen.transactions.set(key, update)
    this.#seen.set(update.slot, seen)
    if (this.#seen.size > SEEN_SLOTS_MAX) this.#seen.delete(this.#seen.keys().next().value!)
    assert(this.#seen.size <= SEEN_SLOTS_MAX, 'seen slots are bounded')
  }

  /**
   * Looks at what was before the subscribe until it has landed, or nobody waits for it. A signature
   * that no node knows is notified by the stream.
   */
  async #lookUp(feed: SignatureFeed): Promise<void> {
    const { chain } = this.#deps
    const { key, commitment, withReceived } = feed.params
    for (let lookups = 1; feed.shares.size > 0 && lookups <= LOOKUPS_MAX; lookups++) {
      const seen = this.#seenStatus(key)
      const status: Found | 'unavailable' | null = seen ?? (await this.#find(feed))
      if (status === null) return
      if (status !== 'unavailable') {
        const { slot } = status
        if (withReceived) this.#received(feed, slot, null)
        // Not before the stream has that slot: calls are answered from the stream, and would show
        // the customer an older state than it was notified of.
        const isInStream = seen !== null || chain.slot(commitment) >= slot
        const isConfirmed = status.commitment >= Commitment.confirmed
        // What the stream has not had it never retracts: such a landing waits to be confirmed.
        const isFirm = seen !== null || isConfirmed || !hasRetractions(feed.params)
        if (status.commitment >= commitment && isInStream && isFirm) {
          const err = status.text ?? JSON.stringify(status.err)
          this.#landed(feed, { slot, err, isConfirmed }, null)
          return
        }
      }
      const doublings = Math.max(0, lookups - QUICK_LOOKUPS)
      const waitMs = Math.min(LOOKUP_MS * 2 ** doublings, LOOKUP_MS_MAX)
      await new Promise((resolve) => setTimeout(resolve, waitMs).unref())
    }
  }

  #seenStatus(key: string) {
    let best: (Found & { readonly text: string }) | null = null
    for (const { reached: commitment, transactions } of this.#seen.values()) {
      const update = transactions.get(key)
      // It may be on a fork, too.
      if (update === undefined || (best !== null && commitment <= best.commitment)) continue
      best = { slot: update.slot, commitment, err: null, text: errText(update.err) }
    }
    return best
  }

  #received(feed: SignatureFeed, slot: number, createdAtMs: number | null): void {
    this.#send(feed, (state) => {
      if (state.received !== null) return
      state.received = `{"context":{"slot":${slot}},"value":"receivedSignature"}`
      this.#deps.notifier.send(feed, state.received, slot, createdAtMs)
    })
  }

  #landed(feed: SignatureFeed, at: Landing, createdAtMs: number | null): void {
    const state = this.#states.get(feed)
    if (state === undefined) return
    const isRetractable = hasRetractions(feed.params)
    const isFinal = at.isConfirmed || !isRetractable
    if (isRetractable) {
      if (feed.shares.size === 0) return
      if (state.landing !== null) {
        if (state.landing.slot !== at.slot) state.others.set(at.slot, at)
        return
      }
      state.landing = at
      if (!isFinal) this.#unconfirmed.add(feed)
    }
    this.#send(feed, () => {
      const result = `{"context":{"slot":${at.slot}},"value":{"err":${at.err}}}`
      this.#deps.notifier.send(feed, result, at.slot, createdAtMs)
      state.landed = result
      if (isFinal) this.#deps.registry.finish(feed)
    })
  }

  /** Sends now, or AFTER_ANSWER_MS after the newest answer; a feed that has ended gets nothing. */
  #send(feed: SignatureFeed, send: (state: SignatureState) => void): void {
    const state = this.#states.get(feed)
    if (state === undefined) return
    const run = () => {
      if (feed.shares.size > 0) send(state)
    }
    if (state.waiting !== null) {
      state.waiting.push(run)
      return
    }
    const nowMs = this.#deps.clock.monotonicMs()
    if (nowMs >= state.joinedMs + AFTER_ANSWER_MS) {
      run()
      return
    }
    state.waiting = [run]
    this.#flushLater(state, nowMs + WAIT_MS_MAX)
  }

  /** A subscribe meanwhile extends the wait, up to the deadline. */
  #flushLater(state: SignatureState, deadlineMs: number): void {
    const dueMs = Math.min(state.joinedMs + AFTER_ANSWER_MS, deadlineMs)
    const waitMs = dueMs - this.#deps.clock.monotonicMs()
    if (waitMs > 0) {
      setTimeout(() => this.#flushLater(state, deadlineMs), Math.ceil(waitMs))
      return
    }
    const { waiting } = state
    assert(waiting !== null, 'one timer at a time flushes what waits')
    state.waiting = null
    for (const one of waiting) one()
  }
}

function newState(): SignatureState {
  return {
    ...{ joinedMs: 0, received: null, waiting: null },
    ...{ landing: null, landed: null, others: new Map() },
  }
}

function landingOf({ slot, err }: TransactionUpdate, isConfirmed = false): Landing {
  return { slot, err: errText(err), isConfirmed }
}

/** A confirmed one, else the newest. */
function takeOther({ others }: SignatureState): Landing | undefined {
  const all = [...others.values()]
  const other = all.find(({ isConfirmed }) => isConfirmed) ?? all.at(-1)
  if (other !== undefined) others.delete(other.slot)
  return other
}

/** More than the 150 blocks of a blockhash, with the slots that are skipped between them. */
const SLOTS_MAX = 512
const UPDATES_PER_TURN = 256
const RUNNING_MAX = 4

/** Finds in the log a transaction that landed before its signature was subscribed to. */
class SignatureSearch {
  readonly #chain: Pick<PubsubChain, 'hub' | 'streamLog'>
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(chain: Pick<PubsubChain, 'hub' | 'streamLog'>) {
    this.#chain = chain
  }

  /** With at least the commitment of the subscription; null when it is not there. */
  async find(
    params: SignatureParams,
    fromSlot: number,
    isWanted: () => boolean,
  ): Promise<(LandedSignature & { readonly text: string }) | null> {
    if (this.#running >= RUNNING_MAX)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#running++
    try {
      const { commitment } = params
      const { hub, streamLog } = this.#chain
      const start = Math.max(fromSlot, (streamLog ?? hub).oldestSlot ?? 0)
      const options = { commitment, fromSlot: start, wantsBlocks: false }
      const source = streamLog?.replay(options) ?? hub.replay(commitment, start)
      return source === null ? null : await search(source, params, fromSlot + SLOTS_MAX, isWanted)
    } finally {
      this.#running--
      this.#waiting.shift()?.()
    }
  }
}

async function search(
  source: ReplaySource<SolanaUpdate>,
  { key, commitment }: SignatureParams,
  slotMax: number,
  isWanted: () => boolean,
) {
  for (let seen = 0; isWanted() && !source.isLost; seen++) {
    if (seen % UPDATES_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve))
    if (source.isLost) break
    const update = source.next()
    if (update === null) return null
    if (update === 'loading')
      await new Promise<void>((resolve) => {
        source.onLoaded = resolve
      })
    else if (update.kind === 'transaction' && keyOf(update.signature) === key)
      return { slot: update.slot, err: null, text: errText(update.err), commitment }
    else if (update.slot > slotMax && update.kind === 'transaction') return null
  }
  return null
}
