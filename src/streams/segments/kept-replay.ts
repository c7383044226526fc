// Replays a hub's updates from a past slot: from the files of the stream log where the hub has
// evicted them, from its memory where it has not, and back from the files where a slow reader's
// next update is evicted meanwhile. The order is the one in which they were published.
//
//   era 7 (file) ─► era 8 (file) ─► era 9 (waits to be written) ─► era 10 (memory) ─► live
//        └ batches are read shortly before they are reached; few are held
import { Commitment } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import { ReceivedBatch } from '../../chain/solana/received-batch.ts'
import type { BlockMetaUpdate, RetractionUpdate, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { SlotItem } from '../flows/item-names.ts'
import { AssembledBlock } from '../flows/tracked-slot.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { Replay, ReplayOptions, ReplaySource } from '../hub/hub.ts'
import { UpdateList, type UpdateRun, type UpdateSource } from '../hub/update-list.ts'
import type {
  KeptBlock,
  KeptElement,
  KeptRetraction,
  KeptRun,
  KeptUpdate,
} from './segment-format.ts'
import type { ReadMemory } from './segment-reader.ts'

/** Of batches that one reader holds; a block that it wants is read whole, beside them. */
const bytesHeldMax = 4 * 1024 * 1024
/** Reads that it holds beside what is needed at once: one that is read from, and one ahead. */
const readsHeldMin = 2
/** Memory that it holds for its next reads, and the longest. */
const freeMax = 4
const freeBytesMax = 1024 * 1024
/** How far it looks for the next batch to read. */
const elementsAhead = 64

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

type ReadableBlock = KeptBlock & { readonly items: readonly ReadableRun[] }
type ReadableRetraction = KeptRetraction & { readonly restated: readonly ReadableElement[] }
export type ReadableElement = ReadableRun | KeptUpdate | ReadableBlock | ReadableRetraction

export interface ReadableEra {
  readonly run: number
  readonly slot: number
  /** Updates of this and later slots are in the next run. */
  readonly below: number
  list(commitment: Commitment): readonly ReadableElement[]
}

export interface KeptEras {
  readonly hub: SolanaHub
  /** The first era there or later: its place in the hub's memory, or what the log has of it. */
  find(at: LogPosition): LogPosition | Promise<ReadableEra | 'lost'> | 'lost'
  /** That batch of an era, and some that follow it. */
  batches(
    run: number,
    era: number,
    batch: number,
    memory: ReadMemory,
  ): Promise<readonly ReceivedBatch[] | null>
}

interface Read {
  readonly number: number
  readonly memory: Buffer | null
  /** Batches of it that are held. */
  batches: number
  /** One of them was dropped while it was read from: its memory is not used again. */
  isRead?: boolean
}

interface HeldBatch {
  readonly source: ReceivedBatch
  readonly read: Read
}

export class KeptReplay implements ReplaySource<SolanaUpdate> {
  readonly #eras: KeptEras
  readonly #options: ReplayOptions
  readonly #at: { run: number; era: number; count: number }
  #memory: Replay<SolanaUpdate> | null = null
  #era: ReadableEra | null = null
  #elements: readonly ReadableElement[] = []
  #element = 0
  /** Updates of the element that were read. */
  #within = 0
  /** From the oldest read on. */
  readonly #batches = new Map<string, HeldBatch>()
  #heldBytes = 0
  /** Of reads of which no batch is held. */
  #free: Buffer[] = []
  #reads = 0
  #releases = 0
  /** What it reads from. */
  #current: { readonly element: ReadableRun; readonly source: UpdateSource } | null = null
  /** A read that is under way before what it reads is needed, by its first batch. */
  #ahead: { readonly key: string; readonly reading: Promise<boolean> } | null = null
  #isLoading = false
  isLost = false
  passes: ((slot: number) => boolean) | null = null
  onLoaded: () => void = () => {}

  constructor(eras: KeptEras, start: LogPosition, options: ReplayOptions) {
    this.#eras = eras
    this.#at = { ...start }
    this.#options = options
    this.#seek()
  }

  next(): SolanaUpdate | null | 'loading' {
    for (;;) {
      if (this.#isLoading || this.isLost) return 'loading'
      if (this.#memory !== null) {
        this.#memory.passes = this.passes
        if (!this.#memory.isLost) return this.#memory.next()
        Object.assign(this.#at, this.#memory.position)
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
    if (this.#isLoading) return
    this.#batches.clear()
    this.#heldBytes = 0
    this.#free = []
    this.#current = null
    this.#ahead = null
    this.#releases++
  }

  *kept(): Iterable<SolanaUpdate> {
    if (this.#memory !== null) yield* this.#memory.kept()
    // Reason for the casts: a log contains what the hub published.
    else
      for (const element of this.#elements)
        if (element.kind === 'update') yield element.update as SolanaUpdate
        else if (element.kind === 'block') {
          const { meta } = element
          yield new AssembledBlock(meta as BlockMetaUpdate, new UpdateList(), element)
        }
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
      Object.assign(this.#at, found)
      this.#memory = this.#eras.hub.replay(commitment, fromSlot, found)
      assert(this.#memory !== null, 'the hub has what it says')
    }
  }

  #enter(era: ReadableEra): void {
    const isSame = era.run === this.#at.run && era.slot === this.#at.era
    Object.assign(this.#at, { run: era.run, era: era.slot, count: isSame ? this.#at.count : 0 })
    this.#era = era
    this.#elements = era.list(this.#options.commitment)
    this.#element = 0
    let left = this.#at.count
    for (const element of this.#elements) {
      const count = countOf(element)
      if (left < count) break
      left -= count
      this.#element++
    }
    this.#within = left
  }

  #leaveEra(): void {
    Object.assign(this.#at, { era: this.#at.era + 1, count: 0 })
    this.#era = null
    this.#elements = []
    this.#seek()
  }

  /** 'other' for what the reader does not want. */
  #nextInEra(): SolanaUpdate | 'end' | 'other' | 'loading' {
    const element = this.#elements[this.#element]
    if (element === undefined) return 'end'
    const update = this.#read(element)
    if (update === 'loading') return update
    if (update === 'skipped') {
      this.#advance(countOf(element) - this.#within)
      return 'other'
    }
    this.#advance(1)
    const { slot } = update
    const isWanted = element.kind === 'run' ? this.#wantsItems(slot) : this.#isWanted(slot)
    return isWanted ? update : 'other'
  }

  #advance(count: number): void {
    this.#at.count += count
    this.#within += count
    const element = this.#elements[this.#element]
    if (element === undefined || this.#within < countOf(element)) return
    this.#element++
    this.#within = 0
  }

  #isWanted(slot: number): boolean {
    return slot >= this.#options.fromSlot && slot < this.#era!.below
  }

  #wantsItems(slot: number): boolean {
    return this.#isWanted(slot) && this.passes?.(slot) !== true
  }

  #read(element: ReadableElement): SolanaUpdate | 'skipped' | 'loading' {
    // Reason for the casts: a log contains what the hub published.
    if (element.kind === 'update') return element.update as SolanaUpdate
    if (element.kind === 'retraction') return this.#readRetraction(element)
    if (element.kind === 'block') {
      if (!this.#options.wantsBlocks || !this.#wantsItems(element.slot)) return 'skipped'
      return this.#readBlock(element, element.items.length)
    }
    if (this.#current?.element !== element) {
      if (this.#isPassed(element)) return 'skipped'
      const source = this.#sourceOf(element, 1)
      if (source === 'loading') return source
      this.#current = { element, source }
      if (this.#ahead === null) this.#lookAhead()
    }
    return this.#current.source.update(element.start + this.#within) as SolanaUpdate
  }

  /** None of it is wanted: its batch need not be read. */
  #isPassed({ slots }: ReadableRun): boolean {
    return slots?.some((slot) => this.#wantsItems(slot)) === false
  }

  #readBlock({ items, ...block }: ReadableBlock, held: number): AssembledBlock | 'loading' {
    const list = new UpdateList<SlotItem>()
    for (const run of items) {
      const source = this.#sourceOf(run, held)
      if (source === 'loading') return source
      list.appendRun(source, run.start, run.end)
    }
    return new AssembledBlock(block.meta as BlockMetaUpdate, list, block)
  }

  #readRetraction({ update, restated }: ReadableRetraction) {
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

  /** `held`: batches that are needed at once. */
  #sourceOf(run: ReadableRun, held: number): UpdateSource | 'loading' {
    if (run.source !== undefined) return run.source
    const key = this.#keyOf(run)
    const known = this.#batches.get(key)
    if (known !== undefined) return known.source
    const isAhead = this.#ahead?.key === key
    this.#load(isAhead ? this.#ahead!.reading : this.#readBatches(run, held), (isRead) => {
      if (!isRead) this.#lose()
    })
    return 'loading'
  }

  #keyOf({ era, batch }: ReadableRun): string {
    return `${this.#at.run} ${era} ${batch}`
  }

  /** Reads the next batch that is needed while the one before is passed on. */
  #lookAhead(): void {
    const elements = this.#elements
    const end = Math.min(elements.length, this.#element + elementsAhead)
    for (let index = this.#element + 1; index < end; index++) {
      const run = elements[index]!
      if (run.kind !== 'run' || run.source !== undefined || this.#isPassed(run)) continue
      if (this.#batches.has(this.#keyOf(run))) continue
      const reading = this.#readBatches(run, 1)
      const ahead = { key: this.#keyOf(run), reading }
      this.#ahead = ahead
      const over = () => {
        if (this.#ahead === ahead) this.#ahead = null
      }
      reading.then(over, over)
      return
    }
  }

  /** False when they are lost. */
  async #readBatches({ era, batch }: ReadableRun, held: number): Promise<boolean> {
    const { run } = this.#at
    const releases = this.#releases
    let memory: Buffer | null = null
    const found = await this.#eras.batches(run, era, batch, (bytes) => {
      memory = this.#memoryFor(bytes)
      return memory
    })
    if (releases !== this.#releases) return found !== null
    const read: Read = { number: this.#reads++, memory, batches: found?.length ?? 0 }
    for (const [index, source] of (found ?? []).entries()) {
      const key = `${run} ${era} ${batch + index}`
      this.#drop(key)
      this.#batches.set(key, { source, read })
      this.#heldBytes += source.bytes.length
    }
    const oldest = read.number - held - readsHeldMin
    for (const [key, one] of this.#batches) {
      if (this.#heldBytes <= bytesHeldMax || one.read.number > oldest) break
      this.#drop(key)
    }
    return found !== null
  }

  /** Of a power of two, so that it fits another read, too. */
  #memoryFor(bytes: number): Buffer {
    if (this.#options.usesAtOnce !== true) return Buffer.allocUnsafeSlow(bytes)
    const size = 2 ** Math.ceil(Math.log2(bytes))
    const found = this.#free.findIndex(({ length }) => length === size)
    return found === -1 ? Buffer.allocUnsafeSlow(size) : this.#free.splice(found, 1)[0]!
  }

  #drop(key: string): void {
    const held = this.#batches.get(key)
    if (held === undefined) return
    const { source, read } = held
    this.#batches.delete(key)
    this.#heldBytes -= source.bytes.length
    read.isRead ||= source === this.#current?.source
    if (--read.batches > 0 || read.isRead || this.#options.usesAtOnce !== true) return
    if (read.memory === null || read.memory.length > freeBytesMax) return
    if (this.#free.push(read.memory) > freeMax) this.#free.shift()
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

// What a hub published, as elements of an era: which batches it takes, and runs of them.

/** Per commitment. */
export type Lists = readonly (readonly UpdateRun<SolanaUpdate>[])[]

export interface BatchUse {
  readonly source: ReceivedBatch
  /** Published as processed in this era: it must contain the batch. */
  readonly isOwn: boolean
}

export function runsOf(lists: Lists): BatchUse[] {
  const uses: BatchUse[] = []
  const add = ({ source, update }: UpdateRun<SolanaUpdate>, isOwn: boolean) => {
    if (source !== null) {
      assert(source instanceof ReceivedBatch, 'a node sent it')
      uses.push({ source, isOwn })
    } else if (update instanceof AssembledBlock)
      for (const item of update.items.runs()) add(item, false)
    else if (update?.kind === 'retraction')
      for (const restated of runsFrom(update.restated)) add(restated, false)
  }
  for (const [commitment, list] of lists.entries())
    for (const run of list) add(run, commitment === Commitment.processed)
  return uses
}

function runsFrom(updates: Iterable<SolanaUpdate>): readonly UpdateRun<SolanaUpdate>[] {
  const list = new UpdateList<SolanaUpdate>()
  for (const update of updates) list.push(update)
  return list.runs()
}

/** With its source; the place of a batch is not known yet. */
export function elementOf(run: UpdateRun<SolanaUpdate>): ReadableElement {
  const { source, update, start, end } = run
  if (source !== null) return runOf(source, start, end)
  if (update instanceof AssembledBlock) {
    const { slot, isMixed, hasVoid } = update
    const items = update.items.runs().map((item) => runOf(item.source!, item.start, item.end))
    return { kind: 'block', slot, isMixed, hasVoid, meta: plain(update.meta), items }
  }
  if (update?.kind !== 'retraction') return { kind: 'update', update: plain(update!) }
  const { restated, ...own } = update
  return { kind: 'retraction', update: plain(own), restated: runsFrom(restated).map(elementOf) }
}

function runOf(source: UpdateSource, start: number, end: number): ReadableRun {
  assert(source instanceof ReceivedBatch, 'a node sent it')
  const slots = new Set<number>()
  for (let at = start; at < end; at++) slots.add(source.slotAt(at))
  return { kind: 'run', era: 0, batch: 0, start, end, slots: [...slots], source }
}

/** Its bytes are views of a batch: a copy is passed on alone. */
function plain<T extends object>(update: T): T {
  const entries = Object.entries(update).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? new Uint8Array(value) : value,
  ])
  // Reason for the cast: the same members.
  return Object.fromEntries(entries) as T
}
