// The figures of a Solana chain now, each with a sparkline of the last minute. Thread: browser.
import type { Solana, SolanaBlock, SolanaStream } from '../client/frames.ts'
import { figure, millis, short } from './format.ts'
import type { SolanaStore } from './solana-store.ts'
import { plain, sparkPoints, type TileText, TileView } from './tile.ts'

interface Tile {
  readonly label: string
  text(store: SolanaStore, stream: SolanaStream): TileText
  points(store: SolanaStore): number[]
}

const lamportsPerSol = 1e9

/** A figure of the stream of the set that is shown, in each document. */
const ofStream =
  (store: SolanaStore, figure: (stream: SolanaStream) => number | null) => (document: Solana) => {
    const found = document.sets.find(({ set }) => set === store.set?.set)?.stream
    return found ? figure(found) : null
  }

const ofBlocks = ({ blocks }: SolanaStore, figure: (block: SolanaBlock) => number | null) =>
  blocks.slice(-sparkPoints).map((block) => figure(block) ?? Number.NaN)

/** The newest block whose transactions were read. */
function newestRead({ blocks }: SolanaStore): SolanaBlock | null {
  return blocks.findLast(({ cost_units: units }) => units !== null) ?? null
}

/** How full a block is, in percent: also of chains whose blocks are nearly empty. */
export function fillPercent(units: number, limit: number): string {
  const value = (units / Math.max(1, limit)) * 100
  return value > 0 && value < 1 ? value.toPrecision(2) : value.toFixed(1)
}

const unread = plain('–', '', 'reading the next blocks')

const tiles: Readonly<Record<string, Tile>> = {
  tps: {
    label: 'Throughput',
    text: (store, { tps }) => {
      const block = newestRead(store)
      if (tps === null) return plain('–', 'TPS', 'waiting for two blocks')
      const part = ((block?.votes ?? 0) / Math.max(1, block?.transactions ?? 0)) * 100
      const votes = part === 0 ? 'no votes' : `${part.toFixed(1)} % of them votes`
      const note = block === null ? 'over ten seconds' : votes
      return plain(tps < 100 ? short(tps) : figure(tps), 'TPS', note)
    },
    points: (store) => store.values(ofStream(store, ({ tps }) => tps)),
  },
  fill: {
    label: 'Block fill',
    text: (store, { cost_limit: limit }) => {
      const block = newestRead(store)
      if (block === null) return unread
      const units = block.cost_units ?? 0
      return plain(fillPercent(units, limit), '%', `${short(units)} of ${short(limit)} units`)
    },
    points: (store) => ofBlocks(store, ({ cost_units: units }) => units),
  },
  fees: {
    label: 'Fees',
    text: (store) => {
      const block = newestRead(store)
      if (block === null) return unread
      const total = ((block.fee_lamports ?? 0) / lamportsPerSol).toFixed(4)
      const median = block.median_fee_lamports
      return median === null
        ? plain('–', '', `only votes, ${total} SOL in all`)
        : plain(short(median), 'lamports', `median; ${total} SOL in all`)
    },
    points: (store) => ofBlocks(store, ({ median_fee_lamports: fee }) => fee),
  },
  slot: {
    label: 'Slot time',
    text: (_, { slot_ms: ms }) => plain(figure(ms), 'ms', 'median of 64 blocks'),
    points: (store) => store.values(ofStream(store, ({ slot_ms: ms }) => ms)),
  },
  finality: {
    label: 'Finalization',
    text: (_, stream) => {
      const slots = slotsBehind(stream, 'finalized')
      if (Number.isNaN(slots)) return plain('–', '', 'nothing finalized yet')
      const note = `${figure(slots)} slots behind processed`
      return plain(millis((slots * stream.slot_ms) / 1000), 's', note)
    },
    points: (store) => store.values(ofStream(store, (stream) => slotsBehind(stream, 'finalized'))),
  },
  land: {
    label: 'Time to land',
    text: (store) => {
      if (store.newest?.products?.tpu === undefined) return plain('–', '', 'TPU is off')
      const { count: landed, seconds } = store.landings()
      if (landed === 0) return plain('–', '', 'none landed in a minute')
      const note = `99 % in ${millis(seconds(0.99))} s, of ${short(landed)}`
      return plain(millis(seconds(0.5)), 's, median', note)
    },
    // Zeros would look like times.
    points: (store) =>
      store.landings().count === 0 ? [] : store.rates(({ products }) => products?.tpu?.landed),
  },
}

/** NaN while one of the two is unknown. */
export function slotsBehind(
  stream: SolanaStream,
  head: 'processed' | 'confirmed' | 'finalized',
): number {
  const { processed, [head]: slot } = stream
  return processed === null || slot === null ? Number.NaN : Math.max(0, processed - slot)
}

export class SolanaTiles {
  readonly everyMs = 200
  readonly #store: SolanaStore
  readonly #views: { readonly tile: Tile; readonly view: TileView }[] = []

  constructor(store: SolanaStore, resized: () => void) {
    this.#store = store
    for (const element of document.querySelectorAll<HTMLElement>('.tile')) {
      const tile = tiles[element.dataset.tile ?? '']
      if (tile !== undefined)
        this.#views.push({ tile, view: new TileView(element, tile.label, resized) })
    }
  }

  draw(): void {
    const stream = this.#store.set?.stream ?? null
    for (const { tile, view } of this.#views) {
      const isKnown = stream !== null || tile === tiles.land
      const why = this.#store.newest === null ? '' : 'no stream'
      const text = isKnown && why !== '' ? tile.text(this.#store, stream!) : plain('–', '', why)
      view.draw(text, tile.points(this.#store))
    }
  }
}
