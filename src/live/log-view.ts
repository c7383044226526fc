// The log, newest first, as one text; and its announcements for screen readers. Thread: browser.
import { byId, setText } from './dom.ts'
import type { EventLines } from './event-lines.ts'
import { clockTime } from './format.ts'

const announceMs = 5_000

export class LogView {
  readonly everyMs = 500
  readonly #log: EventLines
  readonly #lines = byId('log-lines')
  readonly #announce = byId('announce')
  #announced = 0
  #announcedMs = Number.NEGATIVE_INFINITY

  constructor(log: EventLines) {
    this.#log = log
    // A region that scrolls must be reachable by keyboard.
    this.#lines.tabIndex = 0
    byId('log-save').addEventListener('click', () => save(log))
  }

  draw(nowMs: number): void {
    const { lines } = this.#log
    const text = lines.map(
      ({ atMs, kind, text }) => `${clockTime(atMs)}  ${kind.padEnd(10)} ${text}`,
    )
    setText(this.#lines, text.reverse().join('\n'))
    if (nowMs - this.#announcedMs < announceMs) return
    const last = lines.findLast(({ kind }) => kind !== 'efficiency')
    if (last === undefined || last.atMs <= this.#announced) return
    this.#announced = last.atMs
    this.#announcedMs = nowMs
    setText(this.#announce, `${last.kind}: ${last.text}`)
  }
}

function save({ lines }: EventLines): void {
  const text = JSON.stringify(lines, null, 1)
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }))
  link.download = 'sluice-log.json'
  link.click()
  URL.revokeObjectURL(link.href)
}
