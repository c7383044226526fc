// A chain as a node sends it with everything that makes a bank void: early handovers, dead slots,
// other versions of a block, forks, and a chain that is set back.
import { blockMetaUpdate, slotUpdate } from '../../src/chain/solana/received-batch.ts'
import { type SlotStatus, type SolanaUpdate, slotStatus } from '../../src/chain/solana/updates.ts'
import { randomOf, SyntheticSolana } from './synthetic-solana.ts'

/** How a node comes to replace its first bank of a slot. */
export type Way = 'handover' | 'dead' | 'switch'

const ways: readonly Way[] = ['handover', 'dead', 'switch']

const statusOf = (slot: number, status: SlotStatus, parent: number) =>
  slotUpdate({ slot, createdAtMs: slot * 400 }, { parent, status, deadError: 'x' })

const isItem = ({ kind }: SolanaUpdate) =>
  kind === 'transaction' || kind === 'entry' || kind === 'account'

/** Of these a block has a count, and a node a queue each. */
export const isCounted = ({ kind }: SolanaUpdate) => kind === 'transaction' || kind === 'entry'

/**
 * The slot with another bank before the one that wins. Transactions and entries of the first may
 * arrive after CREATED_BANK of the second, before its own of the same kind.
 */
export function withVoidBank(
  slot: readonly SolanaUpdate[],
  way: Way,
  random: () => number,
): SolanaUpdate[] {
  const at = slot.findIndex((one) => one.kind === 'slot' && one.status === slotStatus.createdBank)
  const [before, created, after] = [slot.slice(0, at), slot[at]!, slot.slice(at + 1)]
  const { slot: number } = created
  const parent = (created.kind === 'slot' ? created.parent : null) ?? number - 1
  const seed = Math.floor(random() * 1e9)
  const other = new SyntheticSolana({ seed, firstSlot: number, confirmedAfter: 99 }).next()
  const first = other.filter(({ kind }) => kind !== 'slot' && kind !== 'block')
  // The leader may put the same transactions into both: they differ by what they were executed on.
  const items = random() < 0.5 ? slot.filter(isItem) : first.filter(isItem)
  const received = items.slice(0, Math.floor(random() * items.length) + 1)
  const meta = first.find(({ kind }) => kind === 'blockMeta')!
  const begun = statusOf(number, slotStatus.createdBank, way === 'handover' ? parent - 1 : parent)
  if (way === 'switch') {
    const frozen = [...items, meta, statusOf(number, slotStatus.processed, parent)]
    return [...before, begun, ...frozen, created, ...after]
  }
  const late = received.filter(isCounted).slice(Math.floor(random() * 4))
  const early = received.filter((one) => !late.includes(one))
  // The meta has a thread of its own: transactions may come after it.
  const metaAt = after.findIndex(({ kind }) => kind === 'blockMeta')
  const lastAt = after.findLastIndex(({ kind }) => kind === 'transaction')
  if (random() > 0.5) after.splice(metaAt, 0, ...after.splice(lastAt, 1))
  const died = way === 'dead' ? [statusOf(number, slotStatus.dead, parent)] : []
  return [...before, begun, ...early, ...died, created, ...late, ...after]
}

/** One block as a node sends it, up to PROCESSED. */
function blockOf(slot: number, parent: number, seed: number): SolanaUpdate[] {
  const few = { transactionsPerSlot: 4, accounts: 12 }
  const made = new SyntheticSolana({ ...few, seed, firstSlot: slot, confirmedAfter: 99 }).next()
  return made.map((update) => {
    if (update.kind === 'slot') return statusOf(slot, update.status, parent)
    if (update.kind === 'blockMeta')
      return blockMetaUpdate(update, { ...update, parentSlot: parent, rewards: [] })
    return update
  })
}

export interface VoidChain {
  readonly sent: readonly SolanaUpdate[]
  /** The slots that win, in order, and what each of them has. */
  readonly line: ReadonlyMap<number, readonly SolanaUpdate[]>
}

/** A chain of so many winning slots among void banks, all finalized at its end. */
export function voidChain(seed: number, slots = 12): VoidChain {
  return new VoidChainMaker(seed, slots).make()
}

class VoidChainMaker {
  readonly #random: () => number
  readonly #slots: number
  readonly #sent: SolanaUpdate[] = []
  readonly #line = new Map<number, readonly SolanaUpdate[]>()
  #slot = 1_000
  #parent = 999

  constructor(seed: number, slots: number) {
    this.#random = randomOf(seed)
    this.#slots = slots
  }

  make(): VoidChain {
    const setBackAt = 4 + Math.floor(this.#random() * (this.#slots - 8))
    while (this.#line.size < this.#slots) {
      const chance = this.#random()
      if (this.#line.size === setBackAt) this.#setBack()
      else if (chance < 0.1 && this.#line.size > 1) this.#fork()
      else if (chance < 0.2 && this.#line.size > 1) this.#dead()
      this.#win()
    }
    this.#settle(0)
    return { sent: this.#sent, line: this.#line }
  }

  #seed(): number {
    return Math.floor(this.#random() * 1e9)
  }

  #win(): void {
    const block = blockOf(this.#slot, this.#parent, this.#seed())
    // The last one is followed by nothing that would show that all of its items have come.
    const isLast = this.#line.size === this.#slots - 1
    const hasVoid = this.#line.size > 1 && this.#random() < 1 / 3 && !isLast
    const way = ways[Math.floor(this.#random() * 3)]!
    this.#sent.push(...(hasVoid ? withVoidBank(block, way, this.#random) : block))
    this.#line.set(this.#slot, block.filter(isItem))
    this.#parent = this.#slot++
    this.#settle(1)
  }

  /** A whole block, or a part of one, that nothing is built on. */
  #fork(): void {
    const block = blockOf(this.#slot++, this.#parent, this.#seed())
    const length = this.#random() < 0.5 ? block.length : Math.ceil(this.#random() * block.length)
    this.#sent.push(...block.slice(0, length))
  }

  /** A bank that dies, with items that still waited in the node's queues. */
  #dead(): void {
    const slot = this.#slot++
    const block = blockOf(slot, this.#parent, this.#seed())
    const items = block.filter(isItem)
    const late = this.#random() < 0.5 ? items.filter(isCounted).slice(-3) : []
    const early = block.filter((one) => one.kind === 'slot').slice(0, 2)
    this.#sent.push(...early, ...items.filter((one) => !late.includes(one)))
    this.#sent.push(statusOf(slot, slotStatus.dead, this.#parent), ...late)
  }

  /** Blocks that are deleted without a message; their slots are used again, but for some. */
  #setBack(): void {
    const first = this.#slot
    for (let slot = first; slot < first + 3; slot++)
      this.#sent.push(...blockOf(slot, slot === first ? this.#parent : slot - 1, this.#seed()))
    if (this.#random() < 0.3) this.#slot++
  }

  /** Confirms all but the newest slots of the line, and finalizes those some slots below. */
  #settle(unconfirmed: number): void {
    const line = [...this.#line.keys()]
    const confirmed = line.length - 1 - unconfirmed
    const finalized = unconfirmed === 0 ? confirmed : confirmed - 4
    const parentOf = (at: number) => line[at - 1] ?? 999
    if (confirmed >= 0)
      this.#sent.push(statusOf(line[confirmed]!, slotStatus.confirmed, parentOf(confirmed)))
    if (finalized >= 0)
      this.#sent.push(statusOf(line[finalized]!, slotStatus.finalized, parentOf(finalized)))
  }
}
