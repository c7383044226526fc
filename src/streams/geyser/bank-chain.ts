// Which banks of a stream are ancestors of which, from its statuses, metas and retractions.
// What is not known is no ancestor: a slot of which nothing or only a part came breaks the chain.
import { endsBank, type SolanaUpdate, slotStatus } from '../../chain/solana/updates.ts'

/** As many as the hub keeps content of; a healthy chain has about 33 that are not finalized. */
const banksMax = 1_024

export class ChainBank {
  readonly slot: number
  parent: number | null
  /** Another bank of the slot followed, the slot is dead, or another fork has won. */
  isVoid = false
  isFinal = false
  /** All its items came; or it is over and some are missing. */
  isWhole = false
  hasGap = false

  constructor(slot: number, parent: number | null) {
    this.slot = slot
    this.parent = parent
  }
}

export class BankChain {
  /** The last bank of each slot that is not below the newest finalized one. */
  readonly #banks = new Map<number, ChainBank>()
  #newestFinal: ChainBank | null = null
  /** From this slot on no finalized one is missing. */
  #unbrokenFrom = 0

  restart(): void {
    for (const bank of this.#banks.values()) bank.isVoid = true
    this.#banks.clear()
    this.#newestFinal = null
  }

  /** The bank whose items are published now. */
  of(slot: number): ChainBank {
    return this.#banks.get(slot) ?? this.#add(slot, null)
  }

  /** `isWhole`: of a meta, whether all items of its block are there. */
  take(update: SolanaUpdate, isWhole: () => boolean): void {
    const { slot } = update
    if (update.kind === 'retraction') this.#void(slot)
    else if (update.kind === 'blockMeta') {
      const bank = this.of(slot)
      bank.parent = update.parentSlot
      bank.isWhole = isWhole()
      bank.hasGap = !bank.isWhole
    } else if (update.kind === 'slot') {
      const { status, parent } = update
      if (endsBank(status)) this.#void(slot)
      if (status === slotStatus.createdBank) this.#add(slot, parent)
      else if (this.#banks.has(slot)) this.of(slot).parent ??= parent
      if (status === slotStatus.finalized) this.#finalize(slot, parent)
    }
  }

  /** Whether everything between the two is known, and of one chain. A bank is its own ancestor. */
  isAncestor(bank: ChainBank, of: ChainBank): boolean {
    if (bank.isVoid) return false
    for (let at: ChainBank | undefined = of; at !== undefined; at = this.#parentOf(at)) {
      if (at.hasGap || at.slot < bank.slot) return false
      if (at === bank) return true
      if (at.isFinal) return bank.isFinal && bank.slot >= this.#unbrokenFrom
    }
    return false
  }

  #parentOf({ parent }: ChainBank): ChainBank | undefined {
    return parent === null ? undefined : this.#banks.get(parent)
  }

  #add(slot: number, parent: number | null): ChainBank {
    const bank = new ChainBank(slot, parent)
    this.#banks.set(slot, bank)
    if (this.#banks.size > banksMax) this.#void(this.#banks.keys().next().value!)
    return bank
  }

  #void(slot: number): void {
    const bank = this.#banks.get(slot)
    if (bank === undefined) return
    bank.isVoid = true
    this.#banks.delete(slot)
  }

  /** Everything below it is final or void. */
  #finalize(slot: number, parent: number | null): void {
    const before = this.#newestFinal
    if (before !== null && slot <= before.slot) return
    const bank = this.#banks.get(slot) ?? this.#add(slot, parent)
    bank.isFinal = true
    if (before === null || bank.parent !== before.slot) this.#unbrokenFrom = slot
    if (!bank.isWhole) this.#unbrokenFrom = slot + 1
    this.#newestFinal = bank
    for (const [old, { isFinal }] of this.#banks)
      if (old < slot) {
        if (!isFinal) this.#void(old)
        else this.#banks.delete(old)
      }
  }
}
