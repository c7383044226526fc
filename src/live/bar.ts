// The bar: chain, source, state, block, age, seq, run, gaps and clients.
// Thread: browser.
import type { Status } from '../client/frames.ts'
import { byId, setAttribute, setText } from './dom.ts'
import { count } from './format.ts'
import type { PageStore } from './page-store.ts'
import type { State } from './state.ts'
import { StateBar } from './state-bar.ts'

/** Chains by their id. */
const chains: Readonly<Record<number, string>> = {
  143: 'Monad',
  10143: 'Monad testnet',
  20143: 'Monad devnet',
}

export class Bar {
  readonly #chain = byId('chain')
  readonly #source = byId('source')
  readonly #state = new StateBar()
  readonly #block = byId('bar-block')
  readonly #age = byId('bar-age')
  readonly #seq = byId('bar-seq')
  readonly #run = byId('bar-run')
  readonly #gaps = byId('bar-gaps')
  readonly #clients = byId('bar-clients')

  draw(state: State, store: PageStore, ageMs: number): void {
    this.#state.draw(state)
    setText(this.#block, count(store.history.newest))
    setText(this.#age, Number.isFinite(ageMs) ? `${(ageMs / 1000).toFixed(1)} s` : '–')
    setText(this.#seq, store.seq === 0 ? '–' : count(store.seq))
    setText(this.#run, store.run === '' ? '–' : store.run.slice(0, 8))
    setText(this.#gaps, count(store.gaps))
    if (store.status !== null) this.#drawSource(store.status)
    setText(this.#clients, store.status === null ? '–' : count(store.status.connected_clients))
  }

  #drawSource({ chain_id: id, source, source_file: file = '' }: Status): void {
    setText(this.#chain, id === 0 ? '' : `${chains[id] ?? `chain ${id}`}, EVM`)
    const names = {
      generated: 'generated data',
      recording: `recording ${file}`,
      ring: 'event ring of a node',
    }
    setText(this.#source, names[source])
    setAttribute(this.#source, 'data-kind', source)
  }
}
