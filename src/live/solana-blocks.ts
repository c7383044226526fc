// The last confirmed blocks by slot: how full each was, and its transactions. Thread: browser.
// Skipped slots are gaps; what this page did not see is hatched; a block whose transactions were
// not read has a hollow mark instead of a bar.
import { byId, Surface, setAttribute, setText } from './dom.ts'
import { figure, short } from './format.ts'
import { hatch } from './hatch.ts'
import type { SeenBlock, SolanaStore } from './solana-store.ts'
import { fillPercent } from './solana-tiles.ts'
import { colours, font } from './theme.ts'

/** Slots shown; fewer where bars would be narrower than three pixels. */
const slotsMost = 150
const slotPixels = 6
const axisPixels = 44
const gapPixels = 26
/** For the numbers of the first and the last slot. */
const footPixels = 18

interface Strip {
  readonly name: string
  readonly top: number
  readonly height: number
  /** Value of a block at the top of the strip. */
  readonly most: number
  label(value: number): string
  value(block: SeenBlock): number | null
}

export class SolanaBlocks {
  readonly everyMs = 200
  readonly #store: SolanaStore
  readonly #surface: Surface
  readonly #notes = byId('blocks-notes')

  constructor(store: SolanaStore, resized: () => void) {
    this.#store = store
    const canvas = byId<HTMLCanvasElement>('blocks-map')
    canvas.setAttribute('role', 'img')
    this.#surface = new Surface(canvas, resized)
  }

  draw(): void {
    const { blocks, set } = this.#store
    const context = this.#surface.begin()
    const last = blocks.at(-1)
    setText(this.#notes, notesOf(last, set?.stream?.cost_limit ?? 0))
    const { canvas, width, height } = this.#surface
    const name = last === undefined ? 'No block yet' : `Blocks to slot ${figure(last.slot)}`
    setAttribute(canvas, 'aria-label', name)
    if (last === undefined || !set?.stream) return
    const slots = Math.min(slotsMost, Math.floor((width - axisPixels) / slotPixels))
    const shown = blocks.filter(({ slot }) => slot > last.slot - slots)
    const pixels = (width - axisPixels) / slots
    const x = (slot: number) => axisPixels + (slot - (last.slot - slots + 1)) * pixels
    const finalized = set.stream.finalized ?? 0
    for (const strip of stripsOf(shown, set.stream.cost_limit, height)) {
      drawAxis(context, strip, width)
      for (const block of shown) {
        const isFinal = block.slot <= finalized
        context.fillStyle = isFinal ? colours().soft : colours().excellent
        drawBlock(context, strip, block, { left: x(block.slot), width: pixels })
      }
    }
    context.fillStyle = colours().soft
    context.textBaseline = 'bottom'
    context.fillText(figure(Math.max(0, last.slot - slots + 1)), axisPixels, height)
    context.textAlign = 'right'
    context.fillText(figure(last.slot), width, height)
    context.textAlign = 'left'
    for (const block of shown) {
      if (!block.isAfterHole) continue
      const before = this.#store.blocks.findLast(({ slot }) => slot < block.slot)
      const left = Math.max(axisPixels, x((before?.slot ?? block.slot - 2) + 1))
      const area = { x: left, y: 0, width: x(block.slot) - left, height }
      hatch(context, area, colours().rejected)
    }
  }

  table(): { heads: string[]; lines: string[][] } {
    const heads = ['slot', 'transactions', 'votes', 'failed', 'fees', 'median fee', 'units']
    const lines = this.#store.blocks
      .slice(-16)
      .reverse()
      .map((block) => [
        ...[block.slot, block.transactions, block.votes, block.failed, block.fee_lamports],
        ...[block.median_fee_lamports, block.cost_units],
      ])
      .map((line) => line.map((value) => figure(value)))
    return { heads, lines }
  }
}

function stripsOf(shown: readonly SeenBlock[], limit: number, height: number): Strip[] {
  const most = Math.max(1, ...shown.map(({ transactions }) => transactions))
  const full = Math.max(1, ...shown.map(({ cost_units: units }) => units ?? 0))
  const each = (height - 2 * gapPixels - footPixels) / 2
  return [
    {
      name: 'fill, %',
      top: gapPixels,
      height: each,
      // Small blocks would be a flat line on a scale to the limit.
      most: Math.min(limit, full * 1.1),
      label: (units) => (units === 0 ? '0' : fillPercent(units, limit)),
      value: ({ cost_units: units }) => units,
    },
    {
      name: 'transactions',
      top: 2 * gapPixels + each,
      height: each,
      most,
      label: short,
      value: ({ transactions }) => transactions,
    },
  ]
}

function drawAxis(context: CanvasRenderingContext2D, strip: Strip, width: number): void {
  const bottom = strip.top + strip.height
  context.font = font()
  context.fillStyle = colours().soft
  context.textBaseline = 'bottom'
  context.fillText(strip.name, axisPixels, strip.top - 6)
  context.textAlign = 'right'
  context.textBaseline = 'middle'
  context.strokeStyle = colours().line
  context.lineWidth = 1
  for (const part of [0, 0.5, 1]) {
    const y = Math.round(bottom - strip.height * part) + 0.5
    context.beginPath()
    context.moveTo(axisPixels, y)
    context.lineTo(width, y)
    context.stroke()
    context.fillText(strip.label(strip.most * part), axisPixels - 6, y)
  }
  context.textAlign = 'left'
}

function drawBlock(
  context: CanvasRenderingContext2D,
  strip: Strip,
  block: SeenBlock,
  { left, width }: { readonly left: number; readonly width: number },
): void {
  const value = strip.value(block)
  const bottom = strip.top + strip.height
  if (value === null) {
    context.strokeStyle = colours().soft
    context.beginPath()
    context.arc(left + width / 2, bottom - 5, 2, 0, 7)
    context.stroke()
    return
  }
  const height = Math.max(1, (Math.min(value, strip.most) / strip.most) * strip.height)
  context.fillRect(left, bottom - height, Math.max(1, width - 1), height)
}

function notesOf(last: SeenBlock | undefined, limit: number): string {
  const legend =
    'blue: confirmed, grey: finalized, gap: skipped slot, hatched: not seen here, ' +
    'ring: transactions not read'
  if (last === undefined) return 'no confirmed block yet'
  if (last.cost_units === null) return legend
  const failed = `${figure(last.failed ?? 0)} of ${figure(last.transactions)} transactions failed`
  const part = fillPercent(last.cost_units, limit)
  return `slot ${figure(last.slot)}: ${part} % full, ${failed}\n${legend}`
}
