// Small helpers for elements, text and canvases. Thread: browser.
// Text reaches the page as text only (`textContent`); the page's policy refuses markup from script.

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no #${id}`)
  // Reason for the cast: the page is ours, and each id has one kind of element.
  return found as T
}

/** Passes on what is sent with the form that asks for a token, and empties it. */
export function listenToToken(use: (token: string) => void): void {
  byId('token-form').addEventListener('submit', (event) => {
    event.preventDefault()
    const input = byId<HTMLInputElement>('token')
    use(input.value.trim())
    input.value = ''
  })
}

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  text = '',
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  if (className !== '') element.className = className
  if (text !== '') element.textContent = text
  return element
}

/** Writes only when the text changed: an unchanged write would still dirty the layout. */
export function setText(element: Element, text: string): void {
  if (element.firstChild === null || element.textContent !== text) element.textContent = text
}

export function setAttribute(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value)
}

/** The sentence of a panel in which the filter finds nothing. */
export class Unmatched {
  readonly #before: Element
  readonly #element = make(
    'p',
    'notes unmatched',
    'nothing matches; the filter looks for a part of an address, such as 0x12ab',
  )

  constructor(before: Element) {
    this.#before = before
  }

  show({ address }: { readonly address: string }, isMatched: boolean): void {
    if (address === '' || isMatched) this.#element.remove()
    else if (!this.#element.isConnected) this.#before.after(this.#element)
  }
}

/** A table with fixed rows whose cells are rewritten in place. */
export class FixedTable {
  readonly element: HTMLTableElement
  readonly cells: HTMLElement[][] = []
  readonly #rows: HTMLTableRowElement[] = []

  constructor(heads: readonly string[], rows: number) {
    this.element = make('table')
    const head = this.element.createTHead().insertRow()
    for (const name of heads) {
      const cell = make('th', '', name)
      cell.scope = 'col'
      head.append(cell)
    }
    const body = this.element.createTBody()
    for (let row = 0; row < rows; row++) {
      const line = body.insertRow()
      line.hidden = true
      this.#rows.push(line)
      this.cells.push(heads.map(() => line.insertCell()))
    }
  }

  row(at: number): HTMLTableRowElement {
    return this.#rows[at]!
  }

  /** Fills the rows with texts; the others are hidden. */
  fill(lines: readonly (readonly string[])[]): void {
    this.#rows.forEach((row, at) => {
      const line = lines[at]
      row.hidden = line === undefined
      line?.forEach((text, column) => {
        const cell = this.cells[at]?.[column]
        if (cell !== undefined) setText(cell, text)
      })
    })
  }
}

/** A canvas that follows its element's size and the screen's pixel ratio. */
export class Surface {
  readonly canvas: HTMLCanvasElement
  readonly #context: CanvasRenderingContext2D
  width = 0
  height = 0

  constructor(canvas: HTMLCanvasElement, resized: () => void) {
    this.canvas = canvas
    const context = canvas.getContext('2d')
    if (context === null) throw new Error('this browser has no 2d canvas')
    this.#context = context
    new ResizeObserver(() => {
      this.#fit()
      resized()
    }).observe(canvas)
    this.#fit()
  }

  /** The context, cleared, in CSS pixels. */
  begin(): CanvasRenderingContext2D {
    const ratio = devicePixelRatio
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0)
    this.#context.clearRect(0, 0, this.width, this.height)
    this.#context.globalAlpha = 1
    this.#context.setLineDash([])
    return this.#context
  }

  #fit(): void {
    const { clientWidth, clientHeight } = this.canvas
    const ratio = devicePixelRatio
    this.width = clientWidth
    this.height = clientHeight
    const [width, height] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)]
    if (this.canvas.width !== width) this.canvas.width = width
    if (this.canvas.height !== height) this.canvas.height = height
  }
}
