// Hatched columns: what the page could not see is drawn, never joined over. Thread: browser.
import type { Mark, PageStore } from './page-store.ts'

/** Diagonal lines over a rectangle, in the context's own pixels. */
export function hatch(
  context: CanvasRenderingContext2D,
  area: { x: number; y: number; width: number; height: number },
  colour: string,
  step = 6,
): void {
  const { x, y, width, height } = area
  context.save()
  context.beginPath()
  context.rect(x, y, width, height)
  context.clip()
  context.strokeStyle = colour
  context.lineWidth = Math.max(1, step / 5)
  context.beginPath()
  for (let at = x - height; at < x + width; at += step) {
    context.moveTo(at, y + height)
    context.lineTo(at + height, y)
  }
  context.stroke()
  context.restore()
}

/** The blocks at both sides of a mark: the one before it and the first that is shown after it. */
export function edgesOf(mark: Mark, { history }: PageStore): { left: number; right: number } {
  const row = history.rowOf(mark.after)
  const next = row === -1 ? -1 : row + 1
  const right = next > 0 && next < history.length ? history.value('number', next) : mark.after + 1
  return { left: mark.after, right }
}
