// What the reader chose: pinned block, range, address filter, pause. Thread: browser.
// Kept in the address's fragment (`#block=…&range=750&address=0x…`), so that a link shows the same.

const ranges = [150, 750, 3000] as const

export class Selection {
  /** Null: the newest block. */
  pinned: number | null = null
  range: number = ranges[0]
  /** Lower-case part of an address; '' filters nothing. */
  address = ''
  /** The newest block at the moment of the pause; null while it runs. */
  pausedAt: number | null = null
  readonly isKiosk = new URLSearchParams(location.search).has('kiosk')
  readonly #changed: () => void

  constructor(changed: () => void) {
    this.#changed = changed
    this.read()
    addEventListener('hashchange', () => {
      this.read()
      changed()
    })
  }

  read(): void {
    const values = new URLSearchParams(location.hash.slice(1))
    const block = Number(values.get('block') ?? Number.NaN)
    const range = Number(values.get('range'))
    this.pinned = Number.isSafeInteger(block) && block >= 0 ? block : null
    this.range = ranges.find((one) => one === range) ?? ranges[0]
    this.address = (values.get('address') ?? '').toLowerCase()
  }

  set(change: Partial<Pick<Selection, 'pinned' | 'range' | 'address' | 'pausedAt'>>): void {
    Object.assign(this, change)
    const values = new URLSearchParams()
    if (this.pinned !== null) values.set('block', String(this.pinned))
    if (this.range !== ranges[0]) values.set('range', String(this.range))
    if (this.address !== '') values.set('address', this.address)
    const text = values.toString()
    const fragment = text === '' ? '' : `#${text}`
    if (fragment !== location.hash)
      history.replaceState(null, '', `${location.pathname}${location.search}${fragment}`)
    this.#changed()
  }

  /** True when the filter is empty or the text contains it. */
  matches(text: string): boolean {
    return this.address === '' || text.toLowerCase().includes(this.address)
  }
}
