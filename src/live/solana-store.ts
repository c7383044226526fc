// What the Solana page knows: the documents of the last minute, and the blocks of one set.
// Thread: browser; no DOM. Every collection has a bound.
import type { Solana, SolanaBlock, SolanaSet, SolanaTpu } from '../client/frames.ts'
import { EventLines } from './event-lines.ts'

const documentsMax = 61
const blocksMax = 300
/** Rates are those of the last ten seconds. */
const rateMs = 10_000
/** Between documents: for longer the page did not see what happened. */
const holeMs = 10_000
/** A newest block this far below the last known one is of another chain. */
const rewindSlots = 64

/** A block, and whether the page may have missed others before it. */
export interface SeenBlock extends SolanaBlock {
  readonly isAfterHole: boolean
}

export class SolanaStore {
  readonly documents: Solana[] = []
  readonly blocks: SeenBlock[] = []
  readonly log = new EventLines()
  /** Nothing of it is kept by kind: the panels show the document. */
  readonly latest = new Map<string, never>()
  /** Name of the set that is shown; '' is the first. */
  #chosen = ''
  readonly #states = new Map<string, string>()

  get newest(): Solana | null {
    return this.documents.at(-1) ?? null
  }

  /** The set that is shown. */
  get set(): SolanaSet | null {
    const sets = this.newest?.sets ?? []
    return sets.find(({ set }) => set === this.#chosen) ?? sets[0] ?? null
  }

  choose(set: string): void {
    if (set === this.#chosen) return
    this.#chosen = set
    this.blocks.length = 0
    for (const document of this.documents) this.#takeBlocks(document)
  }

  /** Returns false for a document that it has. */
  take(document: Solana): boolean {
    const last = this.newest
    if (last !== null && document.at_ms === last.at_ms) return false
    const isHole = last !== null && Math.abs(document.at_ms - last.at_ms) > holeMs
    if (isHole || document.at_ms < (last?.at_ms ?? 0) || this.#isRestarted(document))
      this.documents.length = 0
    this.documents.push(document)
    if (this.documents.length > documentsMax) this.documents.shift()
    this.#takeBlocks(document)
    this.#note(document)
    return true
  }

  /**
   * Per second over the last ten; NaN until two documents have it. Counters only grow: one that
   * fell belongs to a server that was restarted.
   */
  rate(of: (document: Solana) => number | null | undefined): number {
    const newest = this.newest
    const since = this.documents.find(({ at_ms: atMs }) => newest!.at_ms - atMs <= rateMs)
    return newest === null || since === undefined ? Number.NaN : perSecond(since, newest, of)
  }

  /** The same between each two documents, for a sparkline. */
  rates(of: (document: Solana) => number | null | undefined): number[] {
    return this.documents.slice(1).map((now, at) => perSecond(this.documents[at]!, now, of))
  }

  values(of: (document: Solana) => number | null | undefined): number[] {
    return this.documents.map((document) => of(document) ?? Number.NaN)
  }

  /** Landings since the oldest document, and the seconds that parts of them took. */
  landings(): Landings {
    const [first] = this.documents
    return landingsOf(first?.products?.tpu, this.newest?.products?.tpu)
  }

  #isRestarted({ products = {} }: Solana): boolean {
    const before = this.newest?.products ?? {}
    const calls = (all: typeof products) => all.rpc?.calls ?? all.grpc?.calls ?? 0
    const shreds = (all: typeof products) => all.shredstream?.received ?? 0
    return calls(products) < calls(before) || shreds(products) < shreds(before)
  }

  #takeBlocks({ sets }: Solana): void {
    const found = sets.find(({ set }) => set === this.#chosen) ?? sets[0]
    const rows = found?.stream?.blocks ?? []
    const [first] = rows
    const newest = rows.at(-1)
    if (first === undefined || newest === undefined) return
    if (newest.slot < (this.blocks.at(-1)?.slot ?? 0) - rewindSlots) this.blocks.length = 0
    const known = this.blocks.at(-1)?.slot ?? null
    for (const row of rows) {
      if (known !== null && row.slot <= known) continue
      const isAfterHole = row === first && known !== null && row.slot > known + 1
      this.blocks.push({ ...row, isAfterHole })
    }
    this.blocks.splice(0, this.blocks.length - blocksMax)
  }

  /** Changes of states, for the log and its announcements. */
  #note({ sets }: Solana): void {
    const now = new Map<string, string>()
    for (const { set, stream, nodes = [] } of sets) {
      if (stream !== null) now.set(`stream of ${set}`, stream.up ? 'up' : 'down')
      for (const { node, state } of nodes) now.set(`node ${node}`, state)
    }
    for (const [name, state] of now) {
      const before = this.#states.get(name)
      if (before !== undefined && before !== state) this.log.add(state, `${name}, ${before} before`)
    }
    this.#states.clear()
    for (const [name, state] of now) this.#states.set(name, state)
  }
}

export interface Landings {
  readonly count: number
  /** NaN without a landing. */
  seconds(part: number): number
}

/** What a histogram of landings counted between two documents, interpolated in its buckets. */
export function landingsOf(before: SolanaTpu | undefined, now: SolanaTpu | undefined): Landings {
  const earlier = new Map(before?.land_seconds)
  const counts = (now?.land_seconds ?? []).map(
    ([bound, count]) => [bound, Math.max(0, count - (earlier.get(bound) ?? 0))] as const,
  )
  const count = counts.at(-1)?.[1] ?? 0
  const seconds = (part: number) => {
    const rank = count * part
    let below = { bound: 0, count: 0 }
    for (const [bound, found] of counts) {
      // Beyond the last bound nothing is known but that it is more.
      if (bound === null) break
      if (found >= rank) {
        const inside = (rank - below.count) / Math.max(1, found - below.count)
        return below.bound + (bound - below.bound) * inside
      }
      below = { bound, count: found }
    }
    return below.bound
  }
  return { count, seconds: (part) => (count === 0 ? Number.NaN : seconds(part)) }
}

function perSecond(
  before: Solana,
  now: Solana,
  of: (document: Solana) => number | null | undefined,
): number {
  const [from, to] = [of(before), of(now)]
  if (from == null || to == null || now === before) return Number.NaN
  return (Math.max(0, to - from) * 1000) / (now.at_ms - before.at_ms)
}
