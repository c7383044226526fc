// The panel behind each `{}`: the frame or body that a card shows, the names of its fields, the
// calls that get the same, and the card as a table. Thread: browser.
import { byId, make } from './dom.ts'
import type { PageStore } from './page-store.ts'

export interface Source {
  readonly title: string
  /** What the card shows, for a reader who sees it for the first time. */
  readonly about: string
  readonly fields: string
  /** Kind of the stream's frame; '' where there is none. */
  readonly kind: string
  readonly path: string
  /** What is shown; without it the last frame of that kind. */
  readonly body?: () => unknown
  readonly table?: () => { heads: string[]; lines: string[][] }
}

const textMax = 20_000

export class SourcePanel {
  readonly #store: Pick<PageStore, 'latest'>
  readonly #dialog = byId<HTMLDialogElement>('panel')
  readonly #body = byId('panel-body')

  constructor(store: Pick<PageStore, 'latest'>) {
    this.#store = store
    byId('panel-close').addEventListener('click', () => this.#dialog.close())
    // The event comes some time after the dialog is closed, which may be open again by then.
    this.#dialog.addEventListener('close', () => {
      if (!this.#dialog.open) this.#body.replaceChildren()
    })
  }

  /** A `{}` button for a card. */
  button(source: Source): HTMLButtonElement {
    const button = make('button', 'source', '{}')
    button.type = 'button'
    button.setAttribute('aria-label', `${source.title}: source and calls`)
    button.addEventListener('click', () => this.open(source.title, this.#content(source)))
    return button
  }

  open(title: string, content: readonly HTMLElement[]): void {
    byId('panel-title').textContent = title
    this.#body.replaceChildren(...content)
    this.#dialog.showModal()
  }

  #content(source: Source): HTMLElement[] {
    const kept = this.#store.latest.get(source.kind)
    const body = source.body?.() ?? (kept === undefined ? null : frameOf(source.kind, kept))
    const parts: HTMLElement[] = [make('p', '', source.about), make('p', 'notes', source.fields)]
    for (const call of callsFor(source)) parts.push(copyable(call, call))
    const table = source.table?.()
    if (table !== undefined) parts.push(tableOf(table))
    if (body !== null) {
      const text = JSON.stringify(body, null, 1)
      parts.push(copyable(text.slice(0, textMax), text))
    }
    return parts
  }
}

function frameOf(kind: string, { seq, payload }: { seq: number; payload: unknown }): unknown {
  return { seq, [kind]: payload }
}

function callsFor({ kind, path }: Source): string[] {
  const { origin } = location
  const calls = [`curl -sS ${origin}${path}`]
  if (kind === '') return calls
  const name = kind.replace('Data', '').replace('Accesses', '').toLowerCase()
  return [
    ...calls,
    `npx --no -- sluice tail ${name} --url ${origin}`,
    `import { MetricsClient } from 'sluice/client'\n` +
      `new MetricsClient({ url: '${origin}' }).connect().on('${kind}', console.log)`,
  ]
}

/** A text with a button that copies it whole. */
function copyable(shown: string, text: string): HTMLElement {
  const holder = make('div', 'copyable')
  const pre = make('pre', '', shown)
  pre.tabIndex = 0
  const button = make('button', '', 'copy')
  button.type = 'button'
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(text)
    button.textContent = 'copied'
  })
  holder.append(pre, button)
  return holder
}

function tableOf({ heads, lines }: { heads: string[]; lines: string[][] }): HTMLElement {
  const holder = make('div', 'scroll')
  holder.tabIndex = 0
  const table = make('table')
  const head = table.createTHead().insertRow()
  for (const name of heads) {
    const cell = make('th', '', name)
    cell.scope = 'col'
    head.append(cell)
  }
  const body = table.createTBody()
  for (const line of lines) {
    const row = body.insertRow()
    for (const text of line) row.insertCell().textContent = text
  }
  holder.append(table)
  return holder
}
