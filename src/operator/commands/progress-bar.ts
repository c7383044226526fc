// Shows the progress of a replay on one line of the terminal.
// Written to stderr, so that a script that reads stdout never sees it.

export interface Progress {
  readonly pass: number
  readonly events: number
  readonly eventsTotal: number
}

const width = 30
/** Shortest time between two redraws. */
const drawMs = 100

export class ProgressBar {
  readonly #stream: { write(text: string): unknown }
  #drawnMs = Number.NEGATIVE_INFINITY
  #line = ''

  constructor(stream: { write(text: string): unknown } = process.stderr) {
    this.#stream = stream
  }

  readonly onProgress = (progress: Progress): void => {
    const nowMs = performance.now()
    const isWhole = progress.events >= progress.eventsTotal
    if (nowMs - this.#drawnMs < drawMs && !isWhole) return
    this.#drawnMs = nowMs
    this.#line = lineOf(progress)
    this.#stream.write(`\r${this.#line}\u001b[K`)
  }

  readonly onEnd = (): void => {
    if (this.#line !== '') this.#stream.write('\n')
    this.#line = ''
  }

  /** Clears the line for other output; the bar is redrawn with the next progress. */
  clear(): void {
    if (this.#line !== '') this.#stream.write('\r\u001b[K')
    this.#line = ''
  }
}

export function lineOf({ pass, events, eventsTotal }: Progress): string {
  const part = eventsTotal === 0 ? 1 : Math.min(1, events / eventsTotal)
  const filled = Math.round(part * width)
  const bar = `${'#'.repeat(filled)}${'.'.repeat(width - filled)}`
  const which = pass === 0 ? '' : `, pass ${pass + 1}`
  const counted = `${events.toLocaleString('en')} of ${eventsTotal.toLocaleString('en')} events`
  return `[${bar}] ${Math.floor(part * 100)} %  ${counted}${which}`
}
