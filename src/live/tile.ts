// A tile: a figure with its unit, a note below it, and a sparkline of its last points.
// Thread: browser.
import { make, Surface, setAttribute, setText } from './dom.ts'
import { colours } from './theme.ts'

export const sparkPoints = 60

export interface TileText {
  readonly value: string
  readonly unit: string
  readonly note: string
  /** Name of a colour; '' for ink. */
  readonly tone: string
}

export function plain(value: string, unit: string, note: string): TileText {
  return { value, unit, note, tone: '' }
}

export class TileView {
  readonly #element: HTMLElement
  readonly #figure = make('b', '', '–')
  readonly #unit = make('span', 'unit')
  readonly #note = make('p', 'note')
  readonly #surface: Surface

  constructor(element: HTMLElement, label: string, resized: () => void) {
    const value = make('p', 'value')
    const canvas = make('canvas')
    canvas.setAttribute('aria-hidden', 'true')
    value.append(this.#figure, this.#unit)
    element.append(make('h2', '', label), value, this.#note, canvas)
    this.#element = element
    this.#surface = new Surface(canvas, resized)
  }

  draw(text: TileText, points: readonly number[]): void {
    setText(this.#figure, text.value)
    setText(this.#unit, text.unit)
    setText(this.#note, text.note)
    setAttribute(this.#element, 'data-tone', text.tone)
    sparkline(this.#surface, points)
  }
}

/** A line over the last points; holes stay open, the newest point is a dot. */
function sparkline(surface: Surface, points: readonly number[]): void {
  const { width, height } = surface
  const context = surface.begin()
  const known = points.filter((value) => !Number.isNaN(value))
  if (known.length < 2) return
  const low = Math.min(...known)
  const high = Math.max(...known)
  const x = (at: number) =>
    2 + ((at + sparkPoints - points.length) * (width - 6)) / (sparkPoints - 1)
  const y = (value: number) =>
    high === low ? height / 2 : height - 3 - ((value - low) / (high - low)) * (height - 6)
  context.strokeStyle = colours().soft
  context.lineWidth = 1.25
  context.beginPath()
  let isOpen = false
  points.forEach((value, at) => {
    if (Number.isNaN(value)) isOpen = false
    else if (isOpen) context.lineTo(x(at), y(value))
    else {
      context.moveTo(x(at), y(value))
      isOpen = true
    }
  })
  context.stroke()
  const last = points.at(-1)!
  if (Number.isNaN(last)) return
  context.fillStyle = colours().ink
  context.beginPath()
  context.arc(x(points.length - 1), y(last), 2.2, 0, 7)
  context.fill()
}
