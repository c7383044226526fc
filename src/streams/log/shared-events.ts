// Follows the shared event log into this gateway's own, and appends to it while holding the lease.
//
//   own source ─► append ─► recent ─┬─ lease ─► append_events ─► committed ─┐
//                                   └─ without it: kept, to take over       ▼
//   other gateways' appends ─ notification, or a poll ─► pull ──────► EventLog.accept ─► clients
//   the log before a start ─ its newest frames first ─► fill ───────► EventLog.prepend
//
// A row that is no frame has its number and is sent as a Gap: it must stop neither this gateway nor
// the frames after it. No frame is sent before its commit. The lease is renewed by the loop that
// appends, on the same connection: one that is stuck loses it.
import { isUtf8 } from 'node:buffer'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../base/clock.ts'
import { assert, isBug, messageOf } from '../../base/errors.ts'
import {
  type Check,
  isCount,
  isNumber,
  isText,
  listOf,
  matching,
  objectOf,
} from '../../base/shape.ts'
import {
  eventsLease,
  type FrameFacts,
  type Lease,
  type Leases,
  type LogFrame,
  type LogHead,
  runJump,
  type SharedLog,
} from '../../base/shared-log.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import { type FrameKind, frameKinds, unknownKind } from './encoded.ts'
import type { EventLog, NewFrame } from './log.ts'

const leaseMs = 2_000
const renewMs = 500
/** How often the log is read without a notification, which may be lost. */
const pollMs = 250
const retryMs = 100
const pageFrames = 1_000
const appendFramesMax = 500
const appendBytesMax = 8 * 1024 * 1024
/** Frames that a starting gateway reads: almost an hour of a chain. */
const startFrames = 50_000
/** Of those, what it reads before it serves: a thousand blocks, as deep as stages are tracked. */
const newestFrames = 7_000
/** The others are read in turns that are short, with a pause as long as each of them. */
const fillFrames = 200
/** Nobody waits longer for one of these turns. */
const fillMs = 1_000

interface SharedEventsDeps {
  readonly shared: SharedLog
  readonly leases: Leases
  readonly clock: Clock
  readonly log: Log
}

export class SharedEvents {
  readonly #events: EventLog
  readonly #deps: SharedEventsDeps
  readonly #recent = new RecentFrames()
  readonly #throttle = new LogThrottle()
  readonly #timer: NodeJS.Timeout
  readonly #endNews: () => void
  #queue: NewFrame[] = []
  #lease: Lease | null = null
  #renewAtMs = 0
  /** Number of the next frame that is appended here. */
  #next = 0
  /** Whether the queue is what the log lacks: not after a take-over or a lost answer. */
  #isSynced = false
  #pulling: Promise<void> | null = null
  #mustPullAgain = false
  #pulledMs: number
  #onRead = () => {}
  readonly #firstRead = new Promise<void>((resolve) => {
    this.#onRead = resolve
  })
  /** Number of the first of the older frames, which are read after the newest; null for none. */
  #olderFrom: number | null = null
  #wake: () => void = () => {}
  #working: Promise<void> | null = null
  #isStopped = false
  #onAppended: (seconds: number) => void = () => {}
  /** Rows that were read and are no frames. */
  invalidRows = 0

  constructor(events: EventLog, deps: SharedEventsDeps) {
    this.#events = events
    this.#deps = deps
    this.#pulledMs = deps.clock.monotonicMs()
    events.pull = () => this.#pullOnce()
    this.#endNews = deps.shared.onNews(() => this.pull())
    this.#timer = setInterval(() => this.pull(), pollMs)
    this.pull()
  }

  /** Calls `observe` with the seconds of each append. */
  onAppended(observe: (seconds: number) => void): void {
    this.#onAppended = observe
  }

  /** Frames of the own source that the log lacks; 0 without the lease. */
  get backlog(): number {
    return this.#queue.length
  }

  /** Whether this gateway numbers the frames now. */
  get isNumberer(): boolean {
    return this.#lease !== null && this.#deps.clock.monotonicMs() < this.#lease.untilMs
  }

  /** Since the log was last read to its end. */
  ageMs(): number {
    return this.#deps.clock.monotonicMs() - this.#pulledMs
  }

  /** Takes a frame of the own source; the log numbers it later, here or at another gateway. */
  append(
    kind: NewFrame['kind'],
    payload: Uint8Array,
    sinceMs = this.#deps.clock.monotonicMs(),
    facts: NewFrame['facts'] = null,
  ): number {
    this.#working ??= this.#work()
    // Copied: the caller reuses its memory.
    const frame = { kind, payload: Buffer.from(payload), sinceMs, facts }
    this.#recent.add(frame)
    // A source that is behind the one that was numbered before sends what the log has.
    if (this.#isSynced && !this.#recent.isInLog(frame)) {
      this.#queue.push(frame)
      this.#wake()
    }
    return 1
  }

  /** Reads now what other gateways appended. */
  pull(): void {
    void this.#pullOnce().catch((error: unknown) => this.#report(error))
  }

  /** Resolves when the log was read to its end once, or after the timeout. */
  ready(timeoutMs: number): Promise<unknown> {
    return Promise.race([this.#firstRead, sleep(timeoutMs, undefined, { ref: false })])
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#timer)
    this.#endNews()
    this.#wake()
    await this.#working
    if (this.isNumberer) await this.#deps.leases.giveBack(eventsLease).catch(() => {})
  }

  /** One read at a time; a call during a read is followed by another one. */
  #pullOnce(): Promise<void> {
    if (this.#pulling !== null) {
      this.#mustPullAgain = true
      return this.#pulling
    }
    this.#pulling = (async () => {
      do {
        this.#mustPullAgain = false
        await this.#read()
      } while (this.#mustPullAgain && !this.#isStopped)
    })().finally(() => {
      this.#pulling = null
    })
    return this.#pulling
  }

  async #read(): Promise<void> {
    const { shared, clock } = this.#deps
    const events = this.#events
    const { run } = await this.#head()
    if (run !== events.run) await this.#begin()
    for (let page = shared.after(events.position, pageFrames), isMore = true; isMore; ) {
      const rows = await page
      isMore = rows.length === pageFrames && !this.#isStopped
      // The database reads the next page while this one is decoded.
      if (isMore) page = shared.after(rows.at(-1)!.seq, pageFrames)
      for (const row of rows) this.#accept(row.seq, this.#frameOf(row))
    }
    this.#pulledMs = clock.monotonicMs()
    this.#onRead()
    if (this.#olderFrom !== null && events.filling === null) void this.#fill()
  }

  /** Reads the older frames, the newest first, as far as there is room. */
  async #fill(): Promise<void> {
    const events = this.#events
    const { shared, clock } = this.#deps
    events.setFilling(true)
    while (this.#olderFrom !== null && !this.#isStopped) {
      const { run, oldestSeq } = events
      const turnMs = clock.monotonicMs()
      const page = shared
        .after(oldestSeq - fillFrames - 1, fillFrames)
        .catch((error: unknown) => this.#report(error))
      const late = () => sleep(fillMs, 'late', { ref: false })
      while ((await Promise.race([page, late()])) === 'late') events.setFilling(true)
      const rows = await page
      for (const row of rows?.toReversed() ?? []) events.prepend(row.seq, this.#frameOf(row))
      const isMore = events.oldestSeq < oldestSeq && events.oldestSeq > this.#olderFrom
      if (rows === undefined) events.setFilling(true)
      // A run that began meanwhile has older frames of its own.
      else if (!isMore && events.run === run && oldestSeq > 0) this.#olderFrom = null
      await sleep(rows === undefined ? retryMs : clock.monotonicMs() - turnMs)
    }
    this.#olderFrom = null
    events.setFilling(false)
  }

  /**
   * Begins where the run's frames do. Those of the run before are read for their keys alone: what
   * the log lost of it is appended again, and clients had the rest.
   */
  async #begin(): Promise<void> {
    const { shared } = this.#deps
    const { run, first, next } = await shared.start(startFrames)
    this.#recent.clearLog()
    let at = this.#events.run === null ? first : first - 1 - runJump - keysMax
    while (at < first && !this.#isStopped) {
      const page = await shared.after(at, pageFrames)
      for (const row of page) if (row.seq < first) this.#recent.seen(this.#frameOf(row))
      at = page.length < pageFrames ? first : page.at(-1)!.seq
    }
    const from = Math.max(first, next - newestFrames)
    this.#olderFrom = from > first ? first : null
    this.#events.restart(run, from - 1)
  }

  /** What a row contains; a Gap when that is no frame. */
  #frameOf({ seq, frame }: LogFrame): NewFrame {
    const { clock, log } = this.#deps
    const nowMs = clock.monotonicMs()
    const decoded = decodeFrame(frame, nowMs)
    if (decoded !== null) return decoded
    this.invalidRows++
    if (this.#throttle.allows('row', nowMs))
      log.error('a row of the shared event log is no frame; a Gap is sent', { seq })
    // Something is missing, and nobody can say what.
    const payload = Buffer.from('{"from":0,"to":0}')
    return { kind: 'Gap', payload, sinceMs: nowMs, facts: null }
  }

  /** The log's head, after a new run began where it lost frames that this gateway has sent. */
  async #head(): Promise<LogHead> {
    const { shared, log } = this.#deps
    const head = await shared.head()
    const { run, position } = this.#events
    if (head.run !== run || head.next > position) return head
    log.error('the shared event log lost frames; a new run begins', { next: head.next, position })
    await shared.renumber(run, position + 1)
    return await shared.head()
  }

  /** A committed frame, from an append of our own or from a read: whichever comes first. */
  #accept(seq: number, frame: NewFrame): void {
    const { position, run } = this.#events
    if (seq <= position) return
    // Rows were deleted, or partitions dropped, that this gateway had not read.
    if (seq !== position + 1) this.#events.restart(run!, seq - 1)
    this.#recent.seen(frame)
    this.#events.accept(seq, frame)
  }

  async #work(): Promise<void> {
    while (!this.#isStopped) {
      try {
        await this.#step()
      } catch (error) {
        if (isBug(error)) throw error
        this.#report(error)
        // What became of an append is not known: the log is read before the next one.
        this.#isSynced = false
        this.#renewAtMs = 0
        await this.#sleep(retryMs)
      }
    }
  }

  async #step(): Promise<void> {
    const { leases, clock } = this.#deps
    if (clock.monotonicMs() >= this.#renewAtMs) {
      this.#renewAtMs = clock.monotonicMs() + renewMs
      const [lease = null] = await leases.hold([eventsLease], leaseMs, 1)
      if (lease?.term !== this.#lease?.term) this.#isSynced = false
      this.#lease = lease
    }
    const lease = this.#lease
    if (lease === null) this.#queue = []
    else if (!this.#isSynced) return this.#sync(lease)
    else if (this.#queue.length > 0) return this.#append(lease)
    await this.#sleep(Math.max(0, this.#renewAtMs - clock.monotonicMs()))
  }

  /** Reads the whole log; what it lacks of the own source is appended next. */
  async #sync(lease: Lease): Promise<void> {
    const { shared, clock, log } = this.#deps
    const { run, next } = await shared.head()
    // After the head: an append whose answer was lost may still be committed in between.
    await this.#pullOnce()
    // Read again: it is another run, has more frames by now, or lost some that were sent.
    if (run !== this.#events.run || next <= this.#events.position) return
    this.#next = next
    this.#queue = this.#recent.missing(clock.monotonicMs())
    this.#isSynced = true
    log.info('numbering the events', { term: lease.term, next, missing: this.#queue.length })
  }

  async #append(lease: Lease): Promise<void> {
    const { shared, clock } = this.#deps
    const batch = batchOf(this.#queue)
    const first = this.#next
    const startedMs = clock.monotonicMs()
    const isDone = await shared.append(lease, first, batch.map(encodeFrame))
    this.#onAppended((clock.monotonicMs() - startedMs) / 1000)
    if (!isDone) {
      this.#isSynced = false
      this.#renewAtMs = 0
      return
    }
    for (const [index, frame] of batch.entries()) this.#accept(first + index, frame)
    this.#queue.splice(0, batch.length)
    this.#next += batch.length
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #report(error: unknown): void {
    if (isBug(error)) throw error
    const { log, clock } = this.#deps
    if (!this.#isStopped && this.#throttle.allows('fault', clock.monotonicMs()))
      log.warn('shared event log is not reachable', { reason: messageOf(error) })
  }
}

function batchOf(queue: readonly NewFrame[]): readonly NewFrame[] {
  let bytes = 0
  const end = queue.findIndex((frame, index) => {
    bytes += frame.payload.length
    return index === appendFramesMax || (index > 0 && bytes > appendBytesMax)
  })
  return end < 0 ? queue.slice() : queue.slice(0, end)
}

// Keeps the frames that this gateway's own source produced, to append what the shared log lacks
// after a take-over or a lost answer.

/** Blocks that a gateway without the lease keeps: four minutes of a chain. */
export const blocksKept = 600
export const keptBytesMax = 64 * 1024 * 1024
/** Blocks by which stages follow the head. */
const nearBlocks = 16
/** Keys of the log's last frames: more than `blocksKept` blocks have. */
const keysMax = 12_000

class RecentFrames {
  #frames: NewFrame[] = []
  #bytes = 0
  /** Keys of the shared log's newest frames. */
  #inLog = new Set<string>()
  /** Those before, all given up at once: a set that loses its oldest at each step is slow. */
  #olderInLog = new Set<string>()
  #lastBlockInLog = -1

  /** The source produced a frame. A Gap is kept as long as a frame before it is. */
  add(frame: NewFrame): void {
    this.#frames.push(frame)
    this.#bytes += frame.payload.length
    const oldest = (frame.facts?.blockNumber ?? 0) - blocksKept
    const isOld = ({ facts }: NewFrame) => facts === null || facts.blockNumber < oldest
    while (this.#bytes > keptBytesMax || (this.#frames.length > 0 && isOld(this.#frames[0]!)))
      this.#bytes -= this.#frames.shift()!.payload.length
    assert(this.#bytes >= 0, 'the bytes of the frames are counted')
  }

  /** The shared log has a frame. */
  seen(frame: NewFrame): void {
    const key = keyOf(frame)
    if (key === null) return
    this.#lastBlockInLog = Math.max(this.#lastBlockInLog, frame.facts?.blockNumber ?? -1)
    if (this.#inLog.size === keysMax) {
      this.#olderInLog = this.#inLog
      this.#inLog = new Set()
    }
    this.#inLog.add(key)
  }

  /** Whether the shared log has this event already, from another source or an earlier append. */
  readonly isInLog = (frame: NewFrame): boolean => {
    const key = keyOf(frame)
    return key !== null && (this.#inLog.has(key) || this.#olderInLog.has(key))
  }

  /** The shared log begins anew. */
  clearLog(): void {
    this.#inLog.clear()
    this.#olderInLog.clear()
    this.#lastBlockInLog = -1
  }

  /** What the log lacks, in this source's order, after a Gap where blocks are in neither. */
  missing(sinceMs: number): NewFrame[] {
    const [known, last] = [this.#frames, this.#lastBlockInLog]
    if (last < 0) return known.slice()
    const [overlap, newest] = [known.findIndex(this.isInLog), known.findLastIndex(this.isInLog)]
    const oldest = overlap < 0 ? last + 1 : last - nearBlocks + 1
    const missing = known.filter((frame, at) => {
      // Sources differ in the order of a few blocks; what is older would follow much newer frames.
      // What a Gap before a frame in the log stands for may be there from another source.
      const isOld = frame.facts === null ? at < newest : frame.facts.blockNumber < oldest
      return at > overlap && !isOld && !this.isInLog(frame)
    })
    if (overlap >= 0) return missing
    // This source joined later than the log's last frame, or follows another chain.
    while (missing[0]?.facts === null) missing.shift()
    const first = missing[0]?.facts?.blockNumber
    if (first === undefined || first <= last + 1) return missing
    // Source numbers are those of a source that is gone: the blocks say what is missing.
    const gap = { from: 0, to: 0, from_block: last + 1, to_block: first - 1 }
    const payload = Buffer.from(JSON.stringify(gap))
    return [{ kind: 'Gap', payload, sinceMs, facts: null }, ...missing]
  }
}

// A frame of the shared event log as bytes, and the checks of what a row of it contains: any
// version of a gateway, or anybody with access to the database, may have written it.
//
//   {"kind":…,"facts":{"key":…,"block":…,"at":…,"of":…}} \n payload as it is sent to clients

interface FrameHead {
  readonly kind: string
  readonly facts?: {
    readonly key?: string
    readonly block: number
    readonly at: string
    readonly of?: Readonly<Record<string, unknown>> & { readonly startedNs: string }
  }
}

const newline = 0x0a
/** Nanoseconds that fit into 63 bits. */
const isTime = matching(/^[0-8]?\d{1,18}$/)
const isBlock = objectOf({
  blockHash: isText,
  ethHash: isText,
  txCount: isCount,
  gasUsed: isCount,
  startedNs: isTime,
})
const isFacts = objectOf(
  { block: isCount, at: isTime },
  { key: matching(/^.{1,200}$/), of: isBlock },
)
const isKind = matching(/^[A-Za-z]\w{0,63}$/)
const isHead = objectOf({ kind: isKind })
const isKnownHead = objectOf({}, { facts: isFacts })
const nothing = Buffer.from('null')

export function encodeFrame({ kind, payload, facts }: Omit<NewFrame, 'sinceMs'>): Buffer {
  const head: FrameHead = facts === null ? { kind } : { kind, facts: factsText(facts) }
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), payload])
}

/**
 * The frame of a row; null when it is none. One of a later version's kind has its number alone.
 * `sinceMs` is when this gateway has it.
 */
export function decodeFrame(bytes: Buffer, sinceMs: number): NewFrame | null {
  const end = bytes.indexOf(newline)
  const head = end < 0 ? null : parsedHead(bytes.toString('utf8', 0, end))
  if (head === null) return null
  const kind = frameKinds.find((known) => known === head.kind)
  if (kind === undefined) return { kind: unknownKind, payload: nothing, sinceMs, facts: null }
  const payload = bytes.subarray(end + 1)
  if (!isKnownHead(head) || !isPayload(kind, payload)) return null
  return { kind, payload, sinceMs, facts: head.facts === undefined ? null : factsOf(head.facts) }
}

/** Names an event at every source of the chain; a Gap, which only one source has, by its bytes. */
function keyOf({ kind, payload, facts }: NewFrame): string | null {
  const key = facts === null ? Buffer.from(payload.subarray(0, 200)).toString() : facts.key
  return key === undefined ? null : `${kind}/${key}`
}

function parsedHead(text: string): FrameHead | null {
  try {
    const head: unknown = JSON.parse(text)
    // Reason for the cast: `isHead` says so of the kind; facts are checked before they are read.
    return isHead(head) ? (head as FrameHead) : null
  } catch {
    return null
  }
}

function factsText({ blockNumber, atNs, key, block }: FrameFacts) {
  return {
    ...(key === undefined ? {} : { key }),
    block: blockNumber,
    at: String(atNs),
    ...(block === undefined ? {} : { of: { ...block, startedNs: String(block.startedNs) } }),
  }
}

function factsOf({ key, block, at, of }: NonNullable<FrameHead['facts']>): FrameFacts {
  return {
    blockNumber: block,
    atNs: BigInt(at),
    ...(key === undefined ? {} : { key }),
    // Reason for the cast: `isBlock` has found its fields.
    ...(of === undefined
      ? {}
      : { block: { ...of, startedNs: BigInt(of.startedNs) } as NonNullable<FrameFacts['block']> }),
  }
}

// Decides whether bytes from outside are the payload of a kind, so that nobody who reads a stored
// frame has to: clients, REST, meters, rows of the index. `EventLog` checks what msgpack can say.

/** Far above any payload: lists have at most 20 elements. */
const payloadBytesMax = 1024 * 1024

const slot = { address: isText, slot: isText, txn_count: isCount, access_count: isCount }
const contract = {
  address: isText,
  total_slots: isCount,
  contended_slots: isCount,
  total_accesses: isCount,
  contention_score: isNumber,
}
const edge = { contract_a: isText, contract_b: isText, shared_txn_count: isCount }
const accessed = { count: isCount, error: isCount }
const isStorageKey: Check = (value) => listOf(isText)(value) && (value as unknown[]).length === 2

const shapes: Readonly<Record<FrameKind, Check>> = {
  TPS: isCount,
  ContentionData: objectOf(
    {
      block_number: isCount,
      block_wall_time_ns: isCount,
      total_tx_time_ns: isCount,
      parallel_efficiency_pct: isNumber,
      total_unique_slots: isCount,
      contended_slot_count: isCount,
      contention_ratio: isNumber,
      total_txn_count: isCount,
      top_contended_slots: listOf(objectOf(slot)),
      top_contended_contracts: listOf(objectOf(contract)),
      contract_edges: listOf(objectOf(edge)),
    },
    {
      written_contended_slot_count: isCount,
      critical_path_txn_count: isCount,
      block_hash: isText,
      at_ms: isNumber,
    },
  ),
  TopAccesses: objectOf({
    account: listOf(objectOf({ ...accessed, key: isText })),
    storage: listOf(objectOf({ ...accessed, key: isStorageKey })),
  }),
  Lifecycle: objectOf(
    { block_hash: isText, block_number: isCount, to_stage: isText, block_age_ms: isNumber },
    {
      from_stage: isText,
      time_in_previous_stage_ms: isNumber,
      txn_count: isCount,
      gas_used: isCount,
      at_ms: isNumber,
    },
  ),
  Gap: objectOf(
    { from: isCount, to: isCount },
    { at_ms: isNumber, from_block: isCount, to_block: isCount },
  ),
}

export function isPayload(kind: FrameKind, payload: Buffer): boolean {
  if (payload.length > payloadBytesMax || !isUtf8(payload)) return false
  try {
    return shapes[kind](JSON.parse(payload.toString('utf8')))
  } catch {
    return false
  }
}
