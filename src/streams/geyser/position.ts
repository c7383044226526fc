// Where a reader is in a chain's stream, so that any gateway of the chain can continue there.
//
// Gateways publish the items of a slot in the order in which their nodes sent them, which differs
// from one to the other. So a position is no number in an order, but what was passed, by slot:
//
//   floor ──► below it everything was passed: those slots are finalized or off the chain
//   slot n    its parent, the statuses that were passed, how many of its banks were retracted, the
//             blockhash once all of its content was passed, and our id of the bank
//   part      of a slot whose content was passed in part: the names of the items, which are the
//             same at every gateway
//
// A reader that continues gets what is published from the floor on but for what is named here.
import { hash } from 'node:crypto'
import { allCommitments, Commitment } from '../../base/commitment.ts'
import { retractionUpdate } from '../../chain/solana/received-batch.ts'
import {
  type BlockMetaUpdate,
  endsBank,
  type RetractionReason,
  type RetractionUpdate,
  type SlotStatus,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../chain/solana/updates.ts'
import type { Hub } from '../hub/hub.ts'
import type { UpdateList, UpdateReader } from '../hub/update-list.ts'

interface SlotState {
  readonly slot: number
  /** Of its bank; null where no node said it. */
  readonly parent: number | null
  /** One bit per status. */
  readonly statuses: number
  readonly retractions: number
  /** Empty until all of its content was passed. */
  readonly blockhash: string
  /** 0 while unknown. */
  readonly bank: number
}

/** The first `count` of the names were passed. */
interface PartOfSlot {
  readonly slot: number
  readonly names: readonly string[]
  readonly count: number
}

export interface Position {
  readonly commitment: Commitment
  readonly floor: number
  readonly slots: readonly SlotState[]
  readonly parts: readonly PartOfSlot[]
}

/** The newest slot of which content was passed. */
export function newestPassed({ floor, slots, parts }: Position): number {
  const whole = slots.filter(({ blockhash }) => blockhash !== '')
  return Math.max(floor - 1, ...[...whole, ...parts].map(({ slot }) => slot))
}

/** Slots remembered while nothing is finalized: as many as the hub has content of, twice. */
const slotsMax = 2_048
/** Items named by a position; the part of a slot with more is passed once more. */
const namesMax = 16_384
const nameLength = 11
const blockName = shortHash('block')
const bankStatuses = bit(slotStatus.processed) | bit(slotStatus.createdBank) | bit(slotStatus.dead)

function bit(status: number): number {
  return 1 << status
}

/** What was passed of the slots that are not finalized, at one commitment. */
class PassedSlots {
  readonly #slots = new Map<number, SlotState>()
  floor: number

  constructor({ floor, slots }: Pick<Position, 'floor' | 'slots'> = { floor: 0, slots: [] }) {
    this.floor = floor
    for (const state of slots) this.#slots.set(state.slot, state)
  }

  get slots(): SlotState[] {
    return [...this.#slots.values()]
  }

  isWhole(slot: number): boolean {
    return (this.#slots.get(slot)?.blockhash ?? '') !== ''
  }

  forget(slot: number): void {
    this.#slots.delete(slot)
  }

  /** Takes a status that voids nothing of what was passed. */
  add(slot: number, status: SlotStatus): void {
    const state = this.#slots.get(slot) ?? fresh(slot)
    this.#set({ ...state, statuses: state.statuses | bit(status) })
  }

  clear(): void {
    this.#slots.clear()
    this.floor = 0
  }

  take(update: SolanaUpdate): void {
    // Nothing was published before the first slot.
    if (this.floor === 0) this.floor = update.slot
    if (update.slot < this.floor) return
    const state = this.#slots.get(update.slot)
    switch (update.kind) {
      case 'slot':
        this.#takeStatus(update, state)
        break
      case 'blockMeta':
        this.#set({ ...(state ?? fresh(update.slot)), blockhash: wholeBlock(update) })
        break
      case 'retraction':
        this.#set(retracted(update, state))
        break
      default:
        // A late item: the slot has less than what will be published of it.
        if (state !== undefined && state.blockhash !== '') this.#set({ ...state, blockhash: '' })
    }
  }

  #takeStatus({ slot, status, parent, bank }: SlotUpdate, state = fresh(slot)): void {
    if (status === slotStatus.finalized) {
      this.#finalize(slot)
      return
    }
    const isNew = status === slotStatus.createdBank
    const before = isNew ? state.statuses & ~bankStatuses : state.statuses
    const blockhash = endsBank(status) ? '' : state.blockhash
    const statuses = before | bit(status)
    // What still comes of a dead slot has another id, which nothing tells.
    const id = status === slotStatus.dead ? 0 : (bank ?? state.bank)
    const known = { statuses, blockhash, bank: id }
    this.#set({ ...state, ...known, parent: isNew ? parent : (state.parent ?? parent) })
  }

  #finalize(slot: number): void {
    this.floor = slot + 1
    for (const old of this.#slots.keys()) if (old <= slot) this.#slots.delete(old)
  }

  #set(state: SlotState): void {
    this.#slots.set(state.slot, state)
    if (this.#slots.size > slotsMax) this.#finalize(Math.min(...this.#slots.keys()))
  }
}

function fresh(slot: number): SlotState {
  return { slot, parent: null, statuses: 0, retractions: 0, blockhash: '', bank: 0 }
}

/** Its blockhash; empty where items of it may follow. */
function wholeBlock({ blockhash, isIncomplete }: BlockMetaUpdate): string {
  return isIncomplete ? '' : blockhash
}

function retracted({ slot, restated }: RetractionUpdate, state = fresh(slot)): SlotState {
  const none = { statuses: state.statuses & ~bankStatuses, blockhash: '', bank: 0 }
  let next: SlotState = { ...state, ...none, retractions: state.retractions + 1 }
  for (const update of restated)
    if (update.kind === 'blockMeta') next = { ...next, blockhash: wholeBlock(update) }
    else if (update.kind === 'slot') {
      const { status, parent, bank = next.bank } = update
      next = { ...next, statuses: next.statuses | bit(status), parent, bank }
    }
  return next
}

/** What a hub has published: where its live readers are. */
export class PublishedSlots {
  readonly #hub: Hub<SolanaUpdate>
  readonly #passed = allCommitments.map(() => new PassedSlots())
  readonly #names = new WeakMap<UpdateList<SolanaUpdate>, NameList>()

  constructor(hub: Hub<SolanaUpdate>) {
    this.#hub = hub
    // A source's updates are not made for it when a slot reaches a commitment.
    hub.listen(
      (commitment, update) => this.#passed[commitment]!.take(update),
      () => false,
    )
    hub.onRestart(() => {
      for (const passed of this.#passed) passed.clear()
    })
  }

  floor(commitment: Commitment): number {
    return this.#passed[commitment]!.floor
  }

  /** Of a reader that has everything that was published so far. */
  position(commitment: Commitment): Position {
    const passed = this.#passed[commitment]!
    const { floor, slots } = passed
    const parts: PartOfSlot[] = []
    for (const [slot, list] of this.#hub.unfinalized(commitment))
      if (slot >= floor && list.length > 0 && !passed.isWhole(slot))
        parts.push({ slot, ...this.#namesOf(list) })
    return { commitment, floor, slots, parts }
  }

  /** Each name is made once, however many readers ask. */
  #namesOf(list: UpdateList<SolanaUpdate>): Omit<PartOfSlot, 'slot'> {
    const { reader, names } = this.#names.get(list) ?? { reader: list.reader(), names: [] }
    this.#names.set(list, { reader, names })
    for (let one = reader.next(); one !== null; one = reader.next()) names.push(nameOf(one))
    return { names, count: names.length }
  }
}

interface NameList {
  readonly reader: UpdateReader<SolanaUpdate>
  readonly names: string[]
}

/** The same at every gateway: without what a node numbers itself. */
function nameOf(update: SolanaUpdate): string {
  return shortHash(textOf(update))
}

function shortHash(text: string): string {
  return hash('sha1', text, 'base64').slice(0, nameLength)
}

function textOf(update: SolanaUpdate): string {
  switch (update.kind) {
    case 'transaction':
      return `t${hex(update.signature)}`
    case 'account': {
      const { pubkey, txnSignature, lamports, data } = update
      // A transaction writes an account once; other writes are told apart by their content.
      const by = txnSignature === null ? `${lamports} ${hash('sha1', data)}` : hex(txnSignature)
      return `a${hex(pubkey)}${by}`
    }
    case 'entry':
      return `e${update.index}`
    case 'blockMeta':
      return `m${update.blockhash}`
    default:
      return update.kind
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
}

/**
 * A reader that continues at a position: what it has already, and what it passes from then on.
 * `exact`: it continues in the same order with the next update, and gets nothing once more.
 * `isRetracting`: it gets retractions, too.
 */
export class Resumption {
  readonly #commitment: Commitment
  readonly #isRetracting: boolean
  readonly #passed: PassedSlots
  /** What of the position is still to come here. */
  readonly #left = new Map<number, Left>()
  /** Names of the items of slots that were passed in part. */
  readonly #names = new Map<number, string[]>()

  constructor(at: Position, from: 'exact' | 'floor' = 'floor', isRetracting = false) {
    const { commitment, slots, parts } = at
    this.#commitment = commitment
    this.#isRetracting = isRetracting
    this.#passed = new PassedSlots(at)
    for (const { slot, names, count } of parts) this.#names.set(slot, names.slice(0, count))
    if (from === 'exact') return
    for (const state of slots) this.#left.set(state.slot, new Left(state, isRetracting))
    for (const [slot, had] of this.#names) {
      const left = this.#left.get(slot) ?? new Left(fresh(slot), isRetracting)
      left.expect(had)
      this.#left.set(slot, left)
    }
  }

  /** Nothing of what is published later was passed before. */
  isOver(published: PublishedSlots): boolean {
    return this.#left.size === 0 && published.floor(this.#commitment) >= this.#passed.floor
  }

  /** The reader has all items of the slot: none of those that come is new. */
  hasItems(slot: number): boolean {
    return this.#left.get(slot)?.isWhole === true
  }

  get position(): Position {
    const parts = [...this.#names].map(([slot, names]) => ({ slot, names, count: names.length }))
    const { floor, slots } = this.#passed
    return { commitment: this.#commitment, floor, slots, parts }
  }

  /** What the reader has of banks that are void, which this gateway need not have seen. */
  takenBack(update: SolanaUpdate): RetractionUpdate[] {
    if (!this.#isRetracting || update.kind !== 'slot') return []
    const own = this.#left.get(update.slot)
    if (own?.isReplacedBy(update)) return own.takenBack(update, own.isWhole ? 'fork' : 'handover')
    if (update.status !== slotStatus.finalized) return []
    const known = this.#passed.slots.find(({ slot }) => slot === update.slot)
    const parent = update.parent ?? known?.parent ?? update.slot
    return [...this.#left].flatMap(([slot, left]) =>
      parent < slot && slot < update.slot ? left.takenBack(update, 'fork') : [],
    )
  }

  /**
   * Whether the reader has it already. `conflict`: what it has of the slot is of a block that this
   * chain does not have; it is forgotten.
   */
  judge(update: SolanaUpdate): 'new' | 'had' | 'conflict' {
    const { slot } = update
    const left = this.#left.get(slot)
    const verdict = left?.judge(update, this.#commitment) ?? 'new'
    if (verdict === 'conflict' || verdict === 'other') this.#forget(slot)
    else if (left?.isDone === true) this.#left.delete(slot)
    // Where it read before, the slot came from a replay, without its life cycle: what it has stays.
    const isKept = left !== undefined && update.kind === 'slot' && endsBank(update.status)
    if (verdict === 'new' && isKept) this.#passed.add(slot, update.status)
    else if (verdict === 'new' || verdict === 'other') this.#take(update)
    this.#finalized(update)
    return verdict === 'other' ? 'new' : verdict
  }

  #take(update: SolanaUpdate): void {
    const { slot, kind } = update
    this.#passed.take(update)
    if (kind === 'retraction' || (kind === 'slot' && endsBank(update.status)))
      this.#names.delete(slot)
    if (kind === 'retraction') for (const one of update.restated) this.#name(one)
    else this.#name(update)
    if (this.#passed.isWhole(slot)) this.#names.delete(slot)
  }

  #name(update: SolanaUpdate): void {
    if (update.kind === 'slot' || update.slot < this.#passed.floor) return
    const names = this.#names.get(update.slot)
    if (names === undefined) this.#names.set(update.slot, [nameOf(update)])
    else names.push(nameOf(update))
  }

  #finalized(update: SolanaUpdate): void {
    if (update.kind !== 'slot' || update.status !== slotStatus.finalized) return
    for (const slots of [this.#left, this.#names])
      for (const slot of slots.keys()) if (slot <= update.slot) slots.delete(slot)
  }

  #forget(slot: number): void {
    this.#left.delete(slot)
    this.#names.delete(slot)
    this.#passed.forget(slot)
  }
}

/** What of one slot was passed, as far as it did not come once more. */
class Left {
  readonly #state: SlotState
  readonly #isRetracting: boolean
  #statuses: number
  #retractions: number
  #isContentDone: boolean
  /** The bank that comes is one before that of the position. */
  #isEarlier = false
  /** Some of its bank came, as far as this gateway tells. */
  #isBegun = false
  /** Transactions and entries that came. */
  #count = 0
  /** Items that were passed may follow the block. */
  #isLate = false
  #names = new Map<string, number>()

  constructor(state: SlotState, isRetracting: boolean) {
    this.#state = state
    this.#isRetracting = isRetracting
    this.#statuses = state.statuses
    this.#retractions = state.retractions
    this.#isContentDone = state.blockhash === ''
  }

  /** Where something of its bank was passed. */
  takenBack({ createdAtMs }: SlotUpdate, reason: RetractionReason): RetractionUpdate[] {
    const { slot, bank, statuses } = this.#state
    const isBegun = (statuses & (bit(slotStatus.createdBank) | bit(slotStatus.processed))) !== 0
    if (!isBegun && !this.isWhole && this.#names.size === 0) return []
    return [retractionUpdate({ slot, createdAtMs }, { bank, reason, restated: [] })]
  }

  expect(names: readonly string[]): void {
    for (const name of names) this.#names.set(name, 1 + (this.#names.get(name) ?? 0))
  }

  get isDone(): boolean {
    return this.#statuses === 0 && this.#isContentDone && !this.#isLate && this.#names.size === 0
  }

  get isWhole(): boolean {
    return this.#state.blockhash !== ''
  }

  /** `other`: the slot has another bank from here on. */
  judge(update: SolanaUpdate, commitment: Commitment): 'new' | 'had' | 'conflict' | 'other' {
    const { kind } = update
    if (kind === 'slot') return this.#judgeStatus(update, commitment)
    if (kind === 'retraction') return this.#judgeRetraction(update)
    if (this.#isEarlier) return 'had'
    return this.isWhole ? this.#judgeWhole(update) : this.#judgePart(update)
  }

  /** Its bank has another parent, and none of those that were retracted before is left to come. */
  isReplacedBy({ status, parent }: SlotUpdate): boolean {
    const isOther = parent !== null && parent !== (this.#state.parent ?? parent)
    return isOther && status === slotStatus.createdBank && this.#retractions === 0
  }

  #judgeStatus(update: SlotUpdate, commitment: Commitment): 'new' | 'had' | 'conflict' | 'other' {
    const { status, parent } = update
    const { parent: known } = this.#state
    if (status === slotStatus.createdBank && commitment === Commitment.processed) {
      if (this.isReplacedBy(update)) return 'other'
      this.#isEarlier = parent !== null && known !== null && parent !== known
      // Of a whole one the meta tells it from those before.
      if (!this.#isEarlier && !this.isWhole) this.#retractions = 0
    }
    // No bank that was retracted is confirmed: the one of the position is none of this chain.
    if (this.#isEarlier && status === slotStatus.confirmed) return 'conflict'
    if (this.#isEarlier) return 'had'
    this.#statuses &= ~bit(status)
    return (this.#state.statuses & bit(status)) === 0 ? 'new' : 'had'
  }

  #judgeRetraction({ restated }: RetractionUpdate): 'had' | 'other' {
    this.#isEarlier = false
    // It takes back what came here, whatever was retracted before: the reader may have got it here.
    if (this.#isBegun && this.#isRetracting) return 'other'
    // What was published here before the block that the reader has, which is still to come.
    const isBefore = this.isWhole && !this.#isContentDone
    // To a reader without retractions nothing is taken back of what is stated again.
    const isStated = !this.#isRetracting && [...restated].some(({ kind }) => kind !== 'slot')
    if (this.#retractions === 0) return isBefore || isStated ? 'had' : 'other'
    this.#retractions--
    return 'had'
  }

  #judgeWhole(update: SolanaUpdate): 'had' | 'conflict' {
    if (update.kind !== 'blockMeta') return 'had'
    const isIt = update.blockhash === this.#state.blockhash
    this.#isEarlier = !isIt && this.#retractions > 0
    if (this.#isEarlier) return 'had'
    this.#isContentDone = true
    this.#retractions = 0
    this.#isLate = update.isIncomplete === true
    return isIt ? 'had' : 'conflict'
  }

  #judgePart(update: SolanaUpdate): 'new' | 'had' | 'conflict' {
    this.#isBegun = true
    if (update.kind === 'transaction' || update.kind === 'entry') this.#count++
    if (this.#names.size === 0) return 'new'
    const name = nameOf(update)
    const left = this.#names.get(name) ?? 0
    if (left > 1) this.#names.set(name, left - 1)
    else this.#names.delete(name)
    // All items are there: what was not among them is of another bank.
    const isWhole = update.kind === 'blockMeta' && update.isIncomplete !== true
    const isOther = isWhole && this.#isOther(update)
    if (isWhole) this.#names.clear()
    return isOther ? 'conflict' : left > 0 ? 'had' : 'new'
  }

  /** Whether a whole block lacks items that the reader has, which nothing takes back from it. */
  #isOther({ executedTransactionCount, entriesCount }: BlockMetaUpdate): boolean {
    // A replay without blocks leaves it out.
    this.#names.delete(blockName)
    // Of a set that never sends whole blocks, a block is not marked as incomplete.
    const isWhole = this.#count >= executedTransactionCount + entriesCount
    return this.#isRetracting && isWhole && this.#names.size > 0
  }
}

const version = 1

/** Text of a position, for a table. */
export function encodePosition({ commitment, floor, slots, parts }: Position): string {
  const rows = slots.map(({ slot, parent, statuses, retractions, blockhash, bank }) => {
    return [slot, parent, statuses, retractions, blockhash, bank]
  })
  const named = parts
    .filter(({ count }) => count <= namesMax)
    .map(({ slot, names, count }) => [slot, names.slice(0, count).join('')])
  return JSON.stringify({ v: version, commitment, floor, slots: rows, parts: named })
}

/** Null for a text of a later version. */
export function decodePosition(text: string): Position | null {
  // Reason for the casts: only `encodePosition` writes such a text, which begins with its version.
  const { v, commitment, floor, slots, parts } = JSON.parse(text) as Encoded
  if (v !== version) return null
  return {
    commitment,
    floor,
    slots: slots.map(([slot, parent, statuses, retractions, blockhash, bank = 0]) => {
      return { slot, parent, statuses, retractions, blockhash, bank }
    }),
    parts: parts.map(([slot, joined]) => {
      const names = joined.match(new RegExp(`.{${nameLength}}`, 'g')) ?? []
      return { slot, names, count: names.length }
    }),
  }
}

interface Encoded {
  readonly v: number
  readonly commitment: Commitment
  readonly floor: number
  readonly slots: readonly (readonly [number, number | null, number, number, string, number?])[]
  readonly parts: readonly (readonly [number, string])[]
}
