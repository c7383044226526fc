// The keys of a page, and its help. Thread: browser. Nothing is taken from a field, a dialog or a
// shortcut of the browser.
import { byId, make } from './dom.ts'
import type { SourcePanel } from './source-panel.ts'

/** Keys or words, each with its meaning. */
export type Meanings = readonly (readonly [name: string, meaning: string])[]

/** Of the execution page. */
const keyHelp = [
  ['Space', 'pause, and go on'],
  ['← →', 'earlier, later block'],
  ['Home End', 'oldest, newest block'],
  ['L', 'back to the newest block'],
  ['/', 'filter by address'],
  ['T', 'light or dark'],
  ['G', 'graph or matrix'],
  ['1 to 9', 'jump to a section'],
  ['Esc', 'clear filter and pin'],
  ['?', 'this list'],
] as const

const words = [
  [
    'efficiency',
    'share of a block that ran in parallel; 90 or more is excellent, below 70 mostly sequential; ' +
      'no verdict below 50 transactions or without contention',
  ],
  ['contended', 'accessed by more than one transaction of a block'],
  ['written', 'contended, and changed by at least one of them: only then do others wait'],
  ['critical path', 'longest chain of transactions that wait for each other'],
  ['wall', 'time on the clock, not the sum over all transactions'],
  ['seq', 'number of a frame; a client resumes after the last one that it has'],
  ['run', 'name of one start of the server; another start has another run'],
  ['gap', 'events that the source lost for good; hatched in the timeline'],
] as const

export type Actions = Readonly<Record<string, () => void>>

export function listenToKeys(actions: Actions): void {
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const target = event.target as HTMLElement
    const isField = target.matches('input') && event.key !== 'Escape'
    const isButton = target.matches('button') && (event.key === ' ' || event.key === 'Enter')
    // Scrollable regions keep their own keys.
    const isScroll = target.matches('pre, .scroll') && /^(Arrow|Home|End| )/.test(event.key)
    if (isButton || isScroll || isField || target.closest('dialog[open]') !== null) return
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
    const action = actions[key] ?? (/^[1-9]$/.test(key) ? () => jump(Number(key)) : undefined)
    if (action === undefined) return
    event.preventDefault()
    action()
  })
}

export const executionHelp = { keys: keyHelp, words }

export function showHelp(panel: SourcePanel, help: { keys: Meanings; words: Meanings }): void {
  const lists = [listOf('keys', help.keys), listOf('keys words', help.words)]
  panel.open('Keys and words', lists)
}

function listOf(kind: string, lines: Meanings): HTMLElement {
  const list = make('dl', kind)
  for (const [name, meaning] of lines) list.append(make('dt', '', name), make('dd', '', meaning))
  return list
}

function jump(to: number): void {
  const section = document.querySelectorAll<HTMLElement>('main > section')[to - 1]
  if (section === undefined) return
  section.tabIndex = -1
  section.focus({ preventScroll: true })
  section.scrollIntoView({ block: 'start' })
  byId('announce').textContent = section.querySelector('h2')?.textContent ?? ''
}
