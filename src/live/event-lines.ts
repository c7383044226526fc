// The page's log: the last 200 events with their time, and one announcement per 5 s for screen
// readers. Thread: browser; no DOM.

const linesMax = 200

export interface Line {
  readonly atMs: number
  readonly kind: string
  readonly text: string
}

export class EventLines {
  readonly lines: Line[] = []
  changed: () => void = () => {}

  add(kind: string, text: string): void {
    this.lines.push({ atMs: Date.now(), kind, text })
    if (this.lines.length > linesMax) this.lines.shift()
    this.changed()
  }
}
