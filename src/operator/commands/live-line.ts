// Shows the state of a running bench on one line of the terminal.
// Written to stderr, and only to a terminal: a script or a CI log never sees it.

/** Shortest time between two redraws. */
const drawMs = 100

export class LiveLine {
  readonly #stream: { write(text: string): unknown; readonly isTTY?: boolean }
  #drawnMs = Number.NEGATIVE_INFINITY
  #isDrawn = false

  constructor(stream: { write(text: string): unknown; isTTY?: boolean } = process.stderr) {
    this.#stream = stream
  }

  show(text: string): void {
    const nowMs = performance.now()
    if (this.#stream.isTTY !== true || nowMs - this.#drawnMs < drawMs) return
    this.#drawnMs = nowMs
    this.#isDrawn = true
    this.#stream.write(`\r${text}\u001b[K`)
  }

  clear(): void {
    if (this.#isDrawn) this.#stream.write('\r\u001b[K')
    this.#isDrawn = false
  }
}
