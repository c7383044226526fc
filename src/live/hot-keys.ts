// The ten most accessed accounts and storage slots: count, the part of it that may be an error as a
// paler end, and the change of rank. Thread: browser.
import { byId, FixedTable, setText, Unmatched } from './dom.ts'
import { count, seconds, shortHex, shortSlot } from './format.ts'
import type { PageStore } from './page-store.ts'
import type { Selection } from './selection.ts'

const rows = 10
/** The counters start anew when block times cross a mark of five minutes. */
const windowMs = 5 * 60_000

/** As wide as a digit: it keeps columns aligned inside one cell. */
const figureSpace = '\u2007'

interface Entry {
  readonly id: string
  readonly address: string
  readonly text: string
  readonly count: number
  readonly error: number
}

export class HotKeys {
  readonly everyMs = 1000
  readonly #store: PageStore
  readonly #selection: Selection
  readonly #reset = byId('keys-reset')
  readonly #unmatched = new Unmatched(byId('keys-body'))
  readonly #lists = ['account', 'storage slot'].map((name) => ({
    table: new FixedTable([name, 'accesses'], rows),
    ranks: new Map<string, number>(),
    shown: [] as Entry[],
  }))

  constructor(store: PageStore, selection: Selection) {
    this.#store = store
    this.#selection = selection
    for (const list of this.#lists) {
      byId('keys-body').append(list.table.element)
      list.table.element.addEventListener('click', (event) => {
        const row = (event.target as Element).closest('tr')
        const entry = list.shown[(row?.rowIndex ?? 0) - 1]
        if (entry !== undefined)
          selection.set({ address: selection.address === entry.address ? '' : entry.address })
      })
    }
  }

  draw(): void {
    const { top, latest } = this.#store
    if (top === null) return
    const data = latest.get('ContentionData')?.payload as { at_ms?: number } | undefined
    if (data?.at_ms !== undefined)
      setText(this.#reset, `resets in ${seconds(windowMs - (data.at_ms % windowMs))}`)
    const accounts = top.account.map((one) => ({
      id: one.key,
      address: one.key,
      text: shortHex(one.key, 6, 6),
      count: one.count,
      error: one.error,
    }))
    const slots = top.storage.map(({ key: [address, slot], ...one }) => ({
      id: address + slot,
      address,
      text: `${shortHex(address)} ${shortSlot(slot)}`,
      count: one.count,
      error: one.error,
    }))
    this.#list(0, accounts)
    this.#list(1, slots)
    const isMatched = this.#lists.some(({ shown }) => shown.length > 0)
    this.#unmatched.show(this.#selection, isMatched || accounts.length === 0)
  }

  #list(which: number, entries: readonly Entry[]): void {
    const list = this.#lists[which]!
    const shown = entries.filter(({ address }) => this.#selection.matches(address))
    const most = Math.max(1, ...entries.map((entry) => entry.count))
    list.shown = shown
    list.table.fill(
      shown.map((entry) => {
        const rank = entries.indexOf(entry)
        const before = list.ranks.get(entry.id) ?? rank
        const change = before > rank ? ' ▲' : before < rank ? ' ▼' : ''
        const place = String(rank + 1).padStart(2, figureSpace)
        return [`${place}  ${entry.text}${change}`, count(entry.count)]
      }),
    )
    shown.forEach((entry, row) => {
      const style = list.table.cells[row]![1]!.style
      style.setProperty('--sure', `${((entry.count - entry.error) / most) * 100}%`)
      style.setProperty('--all', `${(entry.count / most) * 100}%`)
    })
    list.ranks.clear()
    entries.forEach((entry, rank) => {
      list.ranks.set(entry.id, rank)
    })
  }
}
