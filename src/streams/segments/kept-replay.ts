// Replays a hub's updates from a past slot: from the files of the stream log where the hub has
// evicted them, from its memory where it has not, and back from the files where a slow reader's
// next update is evicted meanwhile. The order is the one in which they were published.
//
//   era 7 (file) ─► era 8 (file) ─► era 9 (waits to be written) ─► era 10 (memory) ─► live
//        └ batches are read when they are reached; few are held
import { assert } from '../../base/assert.ts'
import type { BlockMetaUpdate, RetractionUpdate, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { SlotItem } from '../flows/item-names.ts'
import { AssembledBlock } from '../flows/tracked-slot.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { Replay, ReplayOptions, ReplaySource } from '../hub/hub.ts'
import { UpdateList, type UpdateSource } from '../hub/update-list.ts'
import type {
  KeptBlock,
  KeptElement,
  KeptRetraction,
  KeptRun,
  KeptUpdate,
} from './segment-format.ts'

/** Batches held by one reader; a block that it wants is read whole, beside them. */
const batchesHeldMax = 8

/** Where a reader is: an era of a run of the server. */
export interface LogPosition {
  readonly run: number
  readonly era: number
  /** Updates of the era that were read. */
  readonly count: number
}

/** One whose batch is still in memory has its source. */
export interface ReadableRun extends KeptRun {
  readonly source?: UpdateSource
}

export type ReadableElement =
  | ReadableRun
  | KeptUpdate
  | (KeptBlock & { readonly items: readonly ReadableRun[] })
  | (KeptRetraction & { readonly restated: readonly ReadableElement[] })

export interface ReadableEra {
  readonly run: number
  readonly slot: number
  /** Updates of this and later slots are in the next run. */
  readonly below: number
  /** Per commitment. */
  readonly lists: readonly (readonly ReadableElement[])[]
}

export interface KeptEras {
  readonly hub: SolanaHub
  /** The first era there or later: its place in the hub's memory, or what the log has of it. */
  find(at: LogPosition): LogPosition | Promise<ReadableEra | 'lost'> | 'lost'
  batch(run: number, era: number, batch: number): Promise<UpdateSource | null>
}

export class KeptReplay implements ReplaySource<SolanaUpdate> {
  readonly #eras: KeptEras
  readonly #options: ReplayOptions
  #at: LogPosition
  #memory: Replay<SolanaUpdate> | null = null
  #era: ReadableEra | null = null
  #element = 0
  /** Updates of the element that were read. */
  #within = 0
  readonly #batches = new Map<string, UpdateSource>()
  #isLoading = false
  isLost = false
  onLoaded: () => void = () => {}

  constructor(eras: KeptEras, start: LogPosition, options: ReplayOptions) {
    this.#eras = eras
    this.#at = start
    this.#options = options
    this.#seek()
  }

  next(): SolanaUpdate | null | 'loading' {
    for (;;) {
      if (this.#isLoading || this.isLost) return 'loading'
      if (this.#memory !== null) {
        if (!this.#memory.isLost) return this.#memory.next()
        this.#at = { run: this.#at.run, ...this.#memory.position }
        this.#memory = null
        this.#seek()
        continue
      }
      const found = this.#nextInEra()
      if (found === 'loading') return found
      if (found === 'end') this.#leaveEra()
      else if (found !== 'other') return found
    }
  }

  release(): void {
    if (!this.#isLoading) this.#batches.clear()
  }

  #seek(): void {
    const { commitment, fromSlot } = this.#options
    const found = this.#eras.find(this.#at)
    if (found === 'lost') this.#lose()
    else if (found instanceof Promise)
      this.#load(found, (era) => {
        if (era === 'lost') this.#lose()
        else this.#enter(era)
      })
    else {
      this.#at = found
      this.#memory = this.#eras.hub.continueReplay(commitment, fromSlot, found)
      assert(this.#memory !== null, 'the hub has what it says')
    }
  }

  #enter(era: ReadableEra): void {
    const isSame = era.run === this.#at.run && era.slot === this.#at.era
    this.#at = { run: era.run, era: era.slot, count: isSame ? this.#at.count : 0 }
    this.#era = era
    this.#element = 0
    this.#within = 0
    let left = this.#at.count
    for (const element of this.#elements()) {
      const count = countOf(element)
      if (left < count) break
      left -= count
      this.#element++
    }
    this.#within = left
  }

  #leaveEra(): void {
    this.#at = { run: this.#at.run, era: this.#at.era + 1, count: 0 }
    this.#era = null
    this.#seek()
  }

  #elements(): readonly ReadableElement[] {
    return this.#era?.lists[this.#options.commitment] ?? []
  }

  /** 'other' for what the reader does not want. */
  #nextInEra(): SolanaUpdate | 'end' | 'other' | 'loading' {
    const element = this.#elements()[this.#element]
    if (element === undefined) return 'end'
    const update = this.#read(element)
    if (update === 'loading') return update
    if (update === 'skipped') {
      this.#advance(countOf(element) - this.#within)
      return 'other'
    }
    this.#advance(1)
    return this.#isWanted(update.slot) ? update : 'other'
  }

  #advance(count: number): void {
    this.#at = { ...this.#at, count: this.#at.count + count }
    this.#within += count
    const element = this.#elements()[this.#element]
    if (element === undefined || this.#within < countOf(element)) return
    this.#element++
    this.#within = 0
  }

  #isWanted(slot: number): boolean {
    return slot >= this.#options.fromSlot && slot < this.#era!.below
  }

  #read(element: ReadableElement): SolanaUpdate | 'skipped' | 'loading' {
    // Reason for the casts: a log contains what the hub published.
    if (element.kind === 'update') return element.update as SolanaUpdate
    if (element.kind === 'retraction') return this.#readRetraction(element)
    if (element.kind === 'block') {
      if (!this.#options.wantsBlocks || !this.#isWanted(element.slot)) return 'skipped'
      return this.#readBlock(element, element.items.length)
    }
    if (element.slot < this.#options.fromSlot) return 'skipped'
    const source = this.#sourceOf(element, batchesHeldMax)
    if (source === 'loading') return source
    return source.update(element.start + this.#within) as SolanaUpdate
  }

  #readBlock(
    { meta, items, isMixed }: KeptBlock & { readonly items: readonly ReadableRun[] },
    held: number,
  ): AssembledBlock | 'loading' {
    const list = new UpdateList<SlotItem>()
    for (const run of items) {
      const source = this.#sourceOf(run, held)
      if (source === 'loading') return source
      list.appendRun(source, run.start, run.end)
    }
    return new AssembledBlock(meta as BlockMetaUpdate, list, isMixed)
  }

  #readRetraction({
    update,
    restated,
  }: KeptRetraction & { readonly restated: readonly ReadableElement[] }):
    | RetractionUpdate
    | 'skipped'
    | 'loading' {
    const retraction = update as RetractionUpdate
    if (!this.#isWanted(retraction.slot)) return 'skipped'
    const held = restated.reduce((sum, one) => sum + runsIn(one), 0)
    const found: SolanaUpdate[] = []
    for (const one of restated)
      if (one.kind === 'run') {
        const source = this.#sourceOf(one, held)
        if (source === 'loading') return source
        for (let at = one.start; at < one.end; at++) found.push(source.update(at) as SolanaUpdate)
      } else if (one.kind === 'block') {
        const block = this.#readBlock(one, held)
        if (block === 'loading') return block
        found.push(block)
      } else found.push(one.update as SolanaUpdate)
    return { ...retraction, restated: found }
  }

  #sourceOf(run: ReadableRun, held: number): UpdateSource | 'loading' {
    if (run.source !== undefined) return run.source
    const key = `${this.#at.run} ${run.era} ${run.batch}`
    const known = this.#batches.get(key)
    if (known !== undefined) return known
    this.#load(this.#eras.batch(this.#at.run, run.era, run.batch), (source) => {
      if (source === null) {
        this.#lose()
        return
      }
      const heldMax = Math.max(held, batchesHeldMax)
      while (this.#batches.size >= heldMax) this.#batches.delete(this.#batches.keys().next().value!)
      this.#batches.set(key, source)
    })
    return 'loading'
  }

  #lose(): void {
    this.isLost = true
    setImmediate(() => this.onLoaded())
  }

  /** `take` runs later; whatever a disk does, it is called once. */
  #load<T>(loading: Promise<T>, take: (loaded: T) => void): void {
    assert(!this.#isLoading, 'a reader loads one thing at a time')
    this.#isLoading = true
    loading.then(
      (loaded) => {
        this.#isLoading = false
        take(loaded)
        this.onLoaded()
      },
      () => {
        this.#isLoading = false
        this.#lose()
      },
    )
  }
}

/** Batches that it takes to read it, at most. */
function runsIn(element: KeptElement): number {
  if (element.kind === 'block') return element.items.length
  return element.kind === 'run' ? 1 : 0
}

function countOf(element: KeptElement): number {
  return element.kind === 'run' ? element.end - element.start : 1
}
