// Reads and writes the consumers of the registry.
import type { Clock } from '../../base/clock.ts'
import {
  type ConsumerRow,
  type ConsumerTable,
  consumersMax,
  type HeldName,
  type NamedConsumer,
  unusedDays,
} from './consumers.ts'
import type { Tables } from './tables.ts'

const dayMs = 86_400_000

/** In the registry of a gateway that is alone; commands change it beside the server. */
export class LocalConsumers implements ConsumerTable {
  readonly #tables: Tables
  readonly #clock: Clock

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
  }

  open(id: string, name: string): Promise<Omit<ConsumerRow, 'atMs'> | 'too-many'> {
    const { consumers } = this.#tables
    const nowMs = this.#clock.nowMs()
    return this.#tables.transaction(() => {
      const known = consumers.get([id, name])
      for (const { key, value } of this.#rows(id))
        if (key[1] !== name && value.atMs < nowMs - unusedDays * dayMs) consumers.remove(key)
      if (known === undefined && this.#rows(id).length >= consumersMax) return 'too-many'
      const term = Math.max((known?.term ?? 0) + 1, nowMs)
      const opened = { term, position: known?.position ?? null, atMs: nowMs }
      consumers.put([id, name], opened)
      return opened
    })
  }

  async commit(held: readonly HeldName[]): Promise<readonly HeldName[]> {
    const { consumers } = this.#tables
    const atMs = this.#clock.nowMs()
    const isLost = ({ id, name, term }: HeldName) => consumers.get([id, name])?.term !== term
    if (held.every(({ position }) => position === null)) return held.filter(isLost)
    const lost: HeldName[] = []
    await this.#tables.transaction(() => {
      for (const one of held)
        if (isLost(one)) lost.push(one)
        else if (one.position !== null)
          consumers.put([one.id, one.name], { term: one.term, position: one.position, atMs })
    })
    return lost
  }

  async list(id: string): Promise<readonly NamedConsumer[]> {
    return this.#rows(id).map(({ key: [, name], value: { position, atMs } }) => {
      return { name, position, atMs }
    })
  }

  async remove(id: string, name?: string): Promise<number> {
    const { consumers } = this.#tables
    const found = this.#rows(id).filter(({ key }) => name === undefined || key[1] === name)
    await this.#tables.transaction(() => {
      for (const { key } of found) consumers.remove(key)
    })
    return found.length
  }

  #rows(id: string) {
    return [...this.#tables.consumers.getRange({ start: [id, ''], end: [id, '\uffff'] })]
  }
}
