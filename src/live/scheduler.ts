// Draws views in one animation frame, each at its own highest rate, and only when something
// changed. Thread: browser. Nothing runs while the page is hidden or nothing is dirty.

export interface View {
  readonly everyMs: number
  draw(nowMs: number): void
}

interface Entry extends View {
  isDirty: boolean
  drawnMs: number
}

export class Scheduler {
  readonly #views = new Map<string, Entry>()
  #timer: ReturnType<typeof setTimeout> | null = null
  #frame = 0
  #isHidden = false

  add(name: string, view: View): void {
    const { everyMs } = view
    this.#views.set(name, {
      everyMs,
      draw: (nowMs) => view.draw(nowMs),
      isDirty: true,
      drawnMs: Number.NEGATIVE_INFINITY,
    })
  }

  /** Asks for a drawing of these views, as soon as their rate allows. */
  mark(...names: readonly string[]): void {
    for (const name of names) {
      const view = this.#views.get(name)
      if (view !== undefined) view.isDirty = true
    }
    this.#plan()
  }

  /** Draws at once: the reader did something. */
  now(...names: readonly string[]): void {
    for (const name of names) {
      const view = this.#views.get(name)
      if (view !== undefined) view.drawnMs = Number.NEGATIVE_INFINITY
    }
    this.mark(...names)
  }

  markAll(): void {
    this.now(...this.#views.keys())
  }

  setHidden(isHidden: boolean): void {
    this.#isHidden = isHidden
    if (isHidden) this.#cancel()
    else this.#plan()
  }

  #plan(): void {
    if (this.#isHidden || this.#frame !== 0) return
    const nowMs = performance.now()
    let waitMs = Number.POSITIVE_INFINITY
    for (const { isDirty, drawnMs, everyMs } of this.#views.values())
      if (isDirty) waitMs = Math.min(waitMs, drawnMs + everyMs - nowMs)
    if (waitMs === Number.POSITIVE_INFINITY) return
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (waitMs <= 0) this.#frame = requestAnimationFrame(() => this.#run())
    else this.#timer = setTimeout(() => this.#plan(), waitMs)
  }

  #run(): void {
    this.#frame = 0
    const nowMs = performance.now()
    for (const view of this.#views.values()) {
      if (!view.isDirty || view.drawnMs + view.everyMs > nowMs) continue
      view.isDirty = false
      view.drawnMs = nowMs
      view.draw(nowMs)
    }
    this.#plan()
  }

  #cancel(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    if (this.#frame !== 0) cancelAnimationFrame(this.#frame)
    this.#timer = null
    this.#frame = 0
  }
}
