// The tables of the Solana page: heads, nodes, products, TPU, shreds. Thread: browser.
// Rows are fixed and rewritten in place; what is off or absent is said in words.
import type { Solana, SolanaCalls, SolanaNode, SolanaShreds, SolanaTpu } from '../client/frames.ts'
import { byId, FixedTable, make, setText } from './dom.ts'
import { figure, millis, percent, short } from './format.ts'
import type { SolanaStore } from './solana-store.ts'
import { slotsBehind } from './solana-tiles.ts'

const nodesShown = 16

/** A card with a table, or a sentence where there is nothing to be shown. */
class TableCard {
  readonly #table: FixedTable
  readonly #words = make('p', 'notes')

  constructor(id: string, heads: readonly string[], rows: number) {
    this.#table = new FixedTable(heads, rows)
    const body = byId(`${id}-body`)
    // A region that scrolls must be reachable by keyboard.
    body.tabIndex = 0
    body.append(this.#table.element, this.#words)
  }

  show(lines: readonly (readonly string[])[], words = ''): void {
    this.#table.element.hidden = lines.length === 0
    this.#table.fill(lines)
    setText(this.#words, words)
    this.#words.hidden = words === ''
  }
}

export class SolanaTables {
  readonly everyMs = 200
  readonly #store: SolanaStore
  readonly #heads = new TableCard('heads', ['head', 'slot', 'behind', 'seconds'], 3)
  readonly #nodes = new TableCard(
    'nodes',
    ['node', 'state', 'slot', 'lag', 'first arrivals', 'region'],
    nodesShown,
  )
  readonly #products = new TableCard(
    'products',
    ['product', 'state', 'calls/s', 'errors/s', 'refused/s', 'open', 'subscriptions', 'sent/s'],
    3,
  )
  readonly #tpu = new TableCard('tpu', ['transactions', 'per s', 'in all'], 5)
  readonly #shreds = new TableCard('shreds', ['shreds', 'per s', 'in all'], 5)

  constructor(store: SolanaStore) {
    this.#store = store
  }

  draw(): void {
    const { newest } = this.#store
    if (newest === null) return
    this.#drawHeads()
    this.#drawNodes(newest)
    const lines = (['rpc', 'websocket', 'grpc'] as const).map((name) =>
      this.#callsLine(name, ({ products }) => products?.[name]),
    )
    this.#products.show(newest.products === undefined ? [] : lines)
    const { tpu, shredstream } = newest.products ?? {}
    if (tpu === undefined) this.#tpu.show([], 'TPU is off on this server')
    else this.#drawTpu(tpu)
    if (shredstream === undefined) this.#shreds.show([], 'ShredStream is off on this server')
    else this.#drawShreds(shredstream)
  }

  #drawHeads(): void {
    const { set } = this.#store
    const stream = set?.stream ?? null
    if (stream === null) {
      const words = set === null ? 'no Solana node is configured' : 'no geyser stream is open'
      this.#heads.show([], words)
      return
    }
    const lines = (['processed', 'confirmed', 'finalized'] as const).map((name) => {
      const behind = slotsBehind(stream, name)
      const seconds = ((behind * stream.slot_ms) / 1000).toFixed(1)
      return [name, figure(stream[name]), figure(behind), Number.isNaN(behind) ? '–' : seconds]
    })
    const age = stream.age_ms === null ? 'no block yet' : `newest block ${stream.age_ms} ms old`
    const skipped = skippedOf(this.#store.blocks)
    this.#heads.show(lines, `stream ${stream.up ? 'up' : 'down'}, ${age}${skipped}`)
  }

  #drawNodes({ sets, left_out: leftOut }: Solana): void {
    const nodes = sets.flatMap((set) => set.nodes ?? [])
    const up = nodes.filter(({ state }) => state === 'up').length
    const total = nodes.length + (leftOut?.nodes ?? 0)
    setText(byId('nodes-count'), total === 0 ? '' : `${up} of ${total} up`)
    const more = total - Math.min(nodesShown, nodes.length)
    const words = total === 0 ? 'no Solana node is configured' : ''
    this.#nodes.show(
      nodes.slice(0, nodesShown).map(nodeLine),
      more > 0 ? `and ${more} more: sluice status` : words,
    )
  }

  #callsLine(name: string, of: (document: Solana) => SolanaCalls | undefined): string[] {
    const now = this.#store.newest && of(this.#store.newest)
    if (!now) return [name, 'off', ...Array<string>(6).fill('–')]
    const rate = (field: keyof SolanaCalls) =>
      short(this.#store.rate((document) => of(document)?.[field]))
    return [
      ...[name, 'open', rate('calls'), rate('errors'), rate('refused')],
      ...[figure(now.open), figure(now.subscriptions), rate('sent')],
    ]
  }

  #drawTpu(now: SolanaTpu): void {
    const fields = ['accepted', 'landed', 'expired', 'failed', 'rejected'] as const
    const lines = fields.map((field) => [
      field,
      short(this.#store.rate(({ products }) => products?.tpu?.[field])),
      figure(now[field]),
    ])
    const ended = now.landed + now.expired + now.failed
    const share = ended === 0 ? 'none ended yet' : `${percent((now.landed / ended) * 100)} % landed`
    const { count: landed, seconds } = this.#store.landings()
    const times =
      landed === 0
        ? 'none landed in a minute'
        : `median ${millis(seconds(0.5))} s, 99 % below ${millis(seconds(0.99))} s`
    const senders = now.senders_up === 0 ? 'no sender is up' : `${figure(now.senders_up)} up`
    const state = `${figure(now.in_flight)} in flight, ${figure(now.queued)} queued`
    this.#tpu.show(lines, `${share}; ${times}\n${state}; senders: ${senders}`)
  }

  #drawShreds(now: SolanaShreds): void {
    const names = {
      received: 'in',
      accepted: 'first copies',
      sent: 'out',
      dropped: 'dropped',
      rebuilt: 'rebuilt',
    } as const
    const lines = (Object.keys(names) as (keyof typeof names)[]).map((field) => [
      names[field],
      short(this.#store.rate((document) => document.products?.shredstream?.[field])),
      figure(now[field]),
    ])
    const to = now.destinations === 1 ? '1 destination' : `${figure(now.destinations)} destinations`
    this.#shreds.show(lines, `worker ${now.up ? 'up' : 'down, it restarts'}; to ${to}`)
  }
}

/** Slots without a block between those that this page has seen without a hole. */
function skippedOf(blocks: SolanaStore['blocks']): string {
  const from = Math.max(
    0,
    blocks.findLastIndex(({ isAfterHole }) => isAfterHole),
  )
  const [first, last] = [blocks[from], blocks.at(-1)]
  if (first === undefined || last === undefined) return ''
  const slots = last.slot - first.slot + 1
  return `\n${figure(slots - (blocks.length - from))} of the last ${figure(slots)} slots skipped`
}

function nodeLine({ node, state, slot, lag_slots: lag, ...rest }: SolanaNode): string[] {
  const share = rest.first_share === null ? '–' : `${(rest.first_share * 100).toFixed(1)} %`
  const shape = state === 'up' ? '●' : state === 'down' ? '✕' : '▲'
  return [node, `${shape} ${state}`, figure(slot), figure(lag), share, rest.region]
}
