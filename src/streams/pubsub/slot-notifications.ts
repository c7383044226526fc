// Sends notifications of slots: begun, rooted, and every stage between.
// Reads processed updates only: each status of a slot is published there exactly once.
import { decodeDeadError, decodeEntryTransactions } from '../../chain/solana/geyser-decode.ts'
import { type BlockUpdate, type SlotUpdate, slotStatus } from '../../chain/solana/updates.ts'
import type { NotificationDeps } from './block-notifications.ts'

/** Slots above the root; a chain that roots nothing for longer forgets the oldest. */
const BEGUN_MAX = 1_024

interface SlotNotificationsDeps extends Omit<NotificationDeps, 'shapes'> {
  /** The root until the stream has reported one. */
  readonly rootAtStart: () => number
}

export class SlotNotifications {
  readonly #deps: SlotNotificationsDeps
  /** Slots above the root that were told. */
  readonly #begun = new Set<number>()
  #root: number | null = null

  constructor(deps: SlotNotificationsDeps) {
    this.#deps = deps
  }

  take(update: SlotUpdate): void {
    const { slot, status, parent } = update
    // Every new bank, as a validator does: a slot whose bank is replaced comes twice. Not every
    // source reports banks; all report processed slots, and a replay those below a later one.
    const isNew = slot > (this.#root ?? -1) && !this.#begun.has(slot)
    if (status === slotStatus.createdBank || (status === slotStatus.processed && isNew)) {
      this.#begin(slot)
      const root = this.#root ?? this.#deps.rootAtStart()
      this.#send('slot', `{"parent":${parent ?? 0},"root":${root},"slot":${slot}}`, update)
    }
    if (status === slotStatus.finalized && slot > (this.#root ?? -1)) {
      this.#root = slot
      for (const one of this.#begun) if (one <= slot) this.#begun.delete(one)
      this.#send('root', String(slot), update)
    }
    const type = stageOf(update)
    if (type !== null) this.#send('slotsUpdates', stageText(update, type), update)
  }

  restart(): void {
    this.#begun.clear()
    this.#root = null
  }

  /** What was told of the slot is taken back: its next bank is told, however it is reported. */
  retract(slot: number): void {
    this.#begun.delete(slot)
  }

  #begin(slot: number): void {
    this.#begun.add(slot)
    if (this.#begun.size > BEGUN_MAX) this.#begun.delete(this.#begun.values().next().value!)
  }

  /** The block of a slot is complete: `frozen`. */
  takeBlock(update: BlockUpdate): void {
    if (this.#deps.index.slotsUpdates.size === 0) return
    const failed = update.transactions.filter(({ err }) => err !== null).length
    const entries = update.entries.map(({ body }) => decodeEntryTransactions(body))
    const stats =
      `{"numTransactionEntries":${entries.filter((count) => count > 0).length},` +
      `"numSuccessfulTransactions":${update.transactions.length - failed},` +
      `"numFailedTransactions":${failed},"maxTransactionsPerEntry":${Math.max(0, ...entries)}}`
    this.#send('slotsUpdates', stageText(update, `"frozen","stats":${stats}`), update)
  }

  #send(
    topic: 'slot' | 'slotsUpdates' | 'root',
    result: string,
    { slot, createdAtMs }: { readonly slot: number; readonly createdAtMs: number },
  ): void {
    const { index, meters, notifier } = this.#deps
    for (const feed of index[topic]) {
      meters.examined++
      notifier.send(feed, result, slot, createdAtMs)
    }
  }
}

function stageText(at: { slot: number; createdAtMs: number }, type: string): string {
  return `{"slot":${at.slot},"timestamp":${Math.floor(at.createdAtMs)},"type":${type}}`
}

/** The `type` and the members after it; null for a status that is not notified. */
function stageOf({ status, parent, body }: SlotUpdate): string | null {
  switch (status) {
    case slotStatus.firstShredReceived:
      return '"firstShredReceived"'
    case slotStatus.completed:
      return '"completed"'
    case slotStatus.createdBank:
      return `"createdBank","parent":${parent ?? 0}`
    case slotStatus.confirmed:
      return '"optimisticConfirmation"'
    case slotStatus.finalized:
      return '"root"'
    case slotStatus.dead:
      return `"dead","err":${JSON.stringify(decodeDeadError(body))}`
    default:
      return null
  }
}
