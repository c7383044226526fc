// The state of a page in its bar, as shape, word and colour; the banner below it, and the form that
// asks for a token. Thread: browser.
import { byId, setAttribute, setText } from './dom.ts'
import type { State, StateName } from './state.ts'

/** Each state has a shape of its own: colour alone would not tell them apart. */
const shapes: Readonly<Record<StateName, string>> = {
  starting: '○',
  empty: '○',
  'catching-up': '▶',
  live: '●',
  quiet: '◐',
  degraded: '▲',
  offline: '✕',
  refused: '◆',
  unauthorized: '■',
  slow: '▼',
  hidden: '–',
  paused: '❚❚',
}

export class StateBar {
  readonly #shape = byId('pill-shape')
  readonly #text = byId('pill-text')
  readonly #banner = byId('banner')
  readonly #form = byId('token-form')

  draw({ name, text, detail }: State): void {
    setAttribute(document.body, 'data-state', name)
    setText(this.#shape, shapes[name])
    setText(this.#text, text)
    setText(this.#banner, detail)
    this.#banner.hidden = detail === ''
    this.#form.hidden = name !== 'unauthorized'
  }
}
