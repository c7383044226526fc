// Runs the shred pipeline on batched system calls. Thread: shred worker, which the loop blocks.
//
//   recvmmsg ─► admit each, no copy ─► vectors ─► sendmmsg to every target ─► one step of long work
//        every 2 ms one of: count, targets and challenges | errors | echoes | reports
import { getHeapStatistics } from 'node:v8'
import { parseAddress } from '../../base/cidr.ts'
import { Fault } from '../../base/errors.ts'
import {
  boundPort,
  errnos,
  grantedBytes,
  type Libc,
  openSocket,
  pinned,
  type SocketOptions,
} from '../../base/transport/udp-batch.ts'
import {
  BatchReceiver,
  BatchSender,
  batchMax,
  type SendTarget,
  ShredVectors,
  slotBytes,
} from '../../base/transport/udp-send.ts'
import { codeShredBytes, dataShredBytes } from '../../chain/solana/shred.ts'
import { verdicts } from './admit.ts'
import { ioNames, pauseBoundsMs, pauseCauses, type SharedStats } from './shared-stats.ts'
import type { ShredComponents, WorkerSettings } from './shred-components.ts'
import { Caps } from './target-tracker.ts'
import { challengeOf, rowsMax } from './targets.ts'

/**
 * Interval of the steps of maintenance. One step at a time: all of them together take as long as
 * several shreds, and at 10,000 shreds a second one in a hundred would wait for them.
 */
const stepMsUsual = 2
/** Time limit of one drain of the source port. */
const drainMsMax = 2

interface SendSocket {
  readonly family: 4 | 6
  readonly sender: BatchSender
  readonly receiver: BatchReceiver
}

export class BatchLoop {
  readonly #libc: Libc
  readonly #components: ShredComponents
  readonly #settings: WorkerSettings
  readonly #ingest: BatchReceiver
  readonly #vectors: ShredVectors
  readonly #outs: readonly SendSocket[]
  readonly #caps: Caps
  /** Copies of shreds that are sent later than they arrived. */
  readonly #late = pinned(batchMax * slotBytes)
  readonly #lateAt: number
  #rows: readonly number[] = []
  #muted: readonly number[] = []
  /** Served rows of a family without a socket: nothing is sent to them. */
  #unsent: readonly number[] = []
  /** Steps of maintenance, in turn. */
  readonly #steps: readonly ((nowMs: number) => void)[]
  readonly #pauses: Pauses
  readonly #stepMs: number
  #step = 0
  #steppedMs = 0

  constructor(
    libc: Libc,
    components: ShredComponents,
    settings: WorkerSettings,
    stepMs = stepMsUsual,
  ) {
    this.#stepMs = stepMs
    this.#libc = libc
    this.#components = components
    this.#settings = settings
    const { stats, tracker } = components
    const fds = openSockets(libc, stats, settings)
    this.#ingest = new BatchReceiver(libc, fds.ingest)
    this.#vectors = new ShredVectors(libc, [dataShredBytes, codeShredBytes])
    this.#lateAt = libc.addressOf(this.#late)
    this.#caps = new Caps(settings.caps, rowsMax)
    const openSender = (family: 4 | 6, fd: number): SendSocket => ({
      family,
      sender: new BatchSender(libc, fd, this.#vectors, {
        events: {
          failed: (...failure) => tracker.failed(...failure),
          refused: (row) => tracker.refused(row),
        },
        segments: settings.segments,
      }),
      receiver: new BatchReceiver(libc, fd),
    })
    this.#outs = [
      ...(fds.out4 > 0 ? [openSender(4, fds.out4)] : []),
      ...(fds.out6 > 0 ? [openSender(6, fds.out6)] : []),
    ]
    this.#steps = [
      () => this.#updateTargets(),
      ...this.#outs.flatMap(({ sender, receiver }) => [
        () => void sender.drainErrors(),
        () => this.#drainEchoes(receiver),
      ]),
      (nowMs: number) => tracker.report(nowMs),
      () => this.#publishIo(),
    ]
    this.#pauses = new Pauses(libc, stats)
    this.#publishIo()
  }

  /** Runs until `isStopped` returns true, which is checked between batches. */
  run(isStopped: () => boolean): void {
    const { idle, io } = this.#settings
    const { admission, tracker, nowMs: clock } = this.#components
    const mayWait = io === 'batch' && idle === 'sleep'
    // Targets are loaded before the first packet: after a restart many packets are waiting.
    this.#follow()
    let nowMs = clock()
    let isDue = false
    let isPause = false
    while (!isStopped()) {
      if (isPause) this.#pauses.record(nowMs, clock(), isDue)
      const count = this.#ingest.receive(mayWait && !admission.isBusy)
      nowMs = clock()
      if (count > 0) this.#forward(count, nowMs)
      else if (idle === 'yield' && io === 'batch') this.#libc.sched_yield()
      if (admission.isBusy) this.#forwardLate(admission.step(nowMs), nowMs)
      isDue = nowMs - this.#steppedMs >= this.#stepMs
      if (tracker.isStale) this.#updateTargets()
      // After a receive that timed out no shred is near: all steps at once.
      if (isDue) this.#maintain(nowMs, mayWait && count === 0 ? this.#steps.length : 1)
      isPause = count > 0 || isDue
    }
    this.#count()
    closeSockets(this.#libc, this.#components.stats)
  }

  #forward(count: number, nowMs: number): void {
    const { admission, sources, stats, tracker } = this.#components
    const ingest = this.#ingest
    this.#vectors.clear()
    for (let index = 0; index < count; index += 1) {
      const sender = ingest.senderOf(index)
      const source = sender < 0 ? sources.findV6(ingest.wordsOf(index)) : sources.find(sender)
      const at = index * slotBytes
      const length = ingest.lengthOf(index)
      const verdict = admission.admit(ingest.arena, at, length, source, nowMs)
      if (verdict === verdicts.drop) continue
      if (tracker.probing.length > 0) this.#probe(ingest.arena, at, verdict, nowMs)
      this.#vectors.add(verdict, ingest.arenaAddress + at)
    }
    stats.totals.add(0, 'batches', 1)
    this.#send(nowMs)
  }

  /** Sends a shred to the paused targets that are due a probe. */
  #probe(arena: Uint8Array, at: number, verdict: 0 | 1, nowMs: number): void {
    const { tracker } = this.#components
    const bytes = verdict === verdicts.code ? codeShredBytes : dataShredBytes
    for (const target of tracker.dueProbes(nowMs)) {
      this.#sendSocketFor(target)?.sender.sendOne(target, arena.subarray(at, at + bytes))
      tracker.countSent([target.row], 1, bytes, nowMs)
    }
  }

  /** Sends shreds that were rebuilt, or waited until their leader was known. */
  #forwardLate(shreds: readonly Uint8Array[], nowMs: number): void {
    if (shreds.length === 0) return
    let index = 0
    this.#vectors.clear()
    for (const shred of shreds) {
      this.#late.set(shred, index * slotBytes)
      const kind = shred.length === codeShredBytes ? verdicts.code : verdicts.data
      this.#vectors.add(kind, this.#lateAt + index * slotBytes)
      index += 1
      if (index < batchMax) continue
      this.#send(nowMs)
      this.#vectors.clear()
      index = 0
    }
    this.#send(nowMs)
  }

  #send(nowMs: number): void {
    const { total, counts } = this.#vectors
    if (total === 0 || this.#rows.length === 0) return
    if (!this.#components.tracker.maySend) return
    const bytes = counts[0]! * dataShredBytes + counts[1]! * codeShredBytes
    if (this.#caps.charge(this.#rows, total, bytes, nowMs)) this.#setTargets()
    for (const { sender } of this.#outs) sender.send()
    const { numbers } = this.#components.stats.tally
    numbers[0]! += total
    numbers[1]! += bytes
    numbers[2] = nowMs
  }

  /** Adds the tally to the served targets: counting them at each batch costs more than a packet. */
  #count(): void {
    const { tracker, stats } = this.#components
    if (stats.tally.numbers[0] === 0) return
    const { packets, bytes, sentMs } = stats.tally.row(0)
    const muted = this.#muted
    const served = this.#rows.filter((row) => !muted.includes(row))
    for (const row of this.#unsent)
      if (!muted.includes(row)) tracker.failed(row, errnos.family, packets)
    tracker.countSent(served, packets, bytes, sentMs)
    if (muted.length > 0) tracker.countCapped(muted, packets)
    stats.tally.clear(0)
  }

  /** Runs the next steps of maintenance. */
  #maintain(nowMs: number, steps: number): void {
    this.#steppedMs = nowMs
    for (let step = 0; step < steps; step += 1) {
      this.#steps[this.#step]!(nowMs)
      this.#step = (this.#step + 1) % this.#steps.length
    }
  }

  #updateTargets(): void {
    const { tracker } = this.#components
    this.#count()
    this.#follow()
    if (tracker.challenged.length === 0) return
    for (const target of tracker.dueChallenges())
      this.#sendSocketFor(target)?.sender.sendOne(target, challengeOf(target))
  }

  /**
   * Drains the source port, also while no challenge is pending: junk left in its buffer would keep
   * the next echo out. Only datagrams from challenged addresses are examined.
   */
  #drainEchoes(receiver: BatchReceiver): void {
    const { tracker, nowMs } = this.#components
    const untilMs = nowMs() + drainMsMax
    let count = batchMax
    while (count === batchMax && nowMs() < untilMs) {
      count = receiver.receive(false)
      for (const { address, port } of tracker.challenged)
        for (let index = 0; index < count; index += 1)
          if (receiver.isFrom(index, address, port))
            tracker.receiveEcho(address, port, receiver.payloadOf(index))
    }
  }

  #follow(): void {
    const { tracker } = this.#components
    if (!tracker.refresh()) return
    const before = new Set(this.#rows)
    this.#rows = tracker.serving.map(({ row }) => row)
    const unsent = tracker.serving.filter((target) => this.#sendSocketFor(target) === undefined)
    this.#unsent = unsent.map(({ row }) => row)
    for (const row of this.#rows) if (!before.has(row)) this.#caps.reset(row)
    this.#setTargets()
    tracker.markApplied()
  }

  #setTargets(): void {
    this.#count()
    const { serving, challenged, probing } = this.#components.tracker
    this.#muted = this.#rows.filter((row) => this.#caps.isMuted(row))
    const live = serving.filter(({ row }) => !this.#caps.isMuted(row))
    const singles = [...challenged, ...probing]
    for (const { sender, family } of this.#outs) {
      const isOurs = ({ address }: SendTarget) => address.family === family
      sender.setTargets(live.filter(isOurs), singles.filter(isOurs))
    }
  }

  #sendSocketFor({ address }: SendTarget): SendSocket | undefined {
    return this.#outs.find(({ family }) => family === address.family)
  }

  #publishIo(): void {
    const usesSegments = this.#outs.some(({ sender }) => sender.segments)
    const io = usesSegments ? 'batch-segments' : 'batch'
    this.#components.stats.sockets.set(0, 'io', ioNames.indexOf(io))
  }
}

// Opens the sockets of the batch loop once and keeps them across restarts of the worker.
// The sockets belong to the process, not to the thread: their descriptors are
// in the shared stats, and a restarted worker reuses them, so the kernel buffers what arrives
// meanwhile.

/** Receive timeout: a stop or a changed target is noticed within this time. */
const waitMs = 20

export interface Descriptors {
  readonly ingest: number
  readonly out4: number
  readonly out6: number
}

/** Returns the sockets of the previous worker, or opens new ones. Descriptor 0 means no socket. */
export function openSockets(libc: Libc, stats: SharedStats, settings: WorkerSettings): Descriptors {
  const { sockets } = stats
  const kept = sockets.row(0)
  if (kept.ingest > 0) return kept
  const { bufferBytes } = settings
  const base = { bufferBytes, timeoutMs: waitMs }
  const ingest = openSocket(libc, {
    ...base,
    host: settings.host,
    port: kept.ingestPort === 0 ? settings.port : kept.ingestPort,
    keepsErrors: false,
    isV6Only: false,
  })
  sockets.set(0, 'ingest', ingest)
  sockets.set(0, 'ingestPort', boundPort(libc, ingest))
  sockets.set(0, 'bufferBytes', grantedBytes(libc, ingest))
  let port = kept.outPort === 0 ? settings.sourcePort : kept.outPort
  for (const [index, host] of settings.sourceHosts.entries()) {
    const isV4 = parseAddress(host)?.family === 4
    const options = { ...base, host, port, keepsErrors: true, isV6Only: true }
    // The second host is IPv6, which a machine may not support.
    const fd = index === 0 ? openSocket(libc, options) : tryOpen(libc, options)
    if (fd === null) continue
    port = boundPort(libc, fd)
    sockets.set(0, isV4 ? 'out4' : 'out6', fd)
    sockets.set(0, 'outPort', port)
  }
  return sockets.row(0)
}

function tryOpen(libc: Libc, options: SocketOptions): number | null {
  try {
    return openSocket(libc, options)
  } catch (error) {
    if (error instanceof Fault) return null
    throw error
  }
}

export function closeSockets(libc: Libc, stats: SharedStats): void {
  for (const name of ['ingest', 'out4', 'out6'] as const) {
    const fd = stats.sockets.get(0, name)
    stats.sockets.set(0, name, 0)
    if (fd > 0) libc.close(fd)
  }
}

// Measures how long the shred worker is away from its socket, and why.
// A pause lasts from the return of a receive to the next receive: a shred that arrives meanwhile
// waits for the rest of it. The worker's event loop never turns, so that Node's own observers of
// garbage collection see nothing here.
//
//   below 100 us                the cause is what the loop did: forward, or also maintenance
//   the heap became smaller     gc
//   involuntary switches grew   preempted: the kernel ran another thread on this core

/** Pauses from here on are examined: two calls, 3 us together. */
const examinedMs = 0.1
/** Age at which the heap's size is read again, so that a collection always makes it smaller. */
const heapAgeMsMax = 1000
const usageOfThread = 1
const usageBytes = 144
/** Byte of ru_nivcsw in a struct rusage. */
const involuntaryByte = 136

const [forward, maintenance, gc, preempted] = (
  ['forward', 'maintenance', 'gc', 'preempted'] as const
).map((name) => pauseCauses.indexOf(name)) as [number, number, number, number]

export class Pauses {
  readonly #numbers: Float64Array
  readonly #width: number
  readonly #readSwitches: () => number
  #heapBytes = 0
  #heapReadMs = 0
  #switches = 0

  constructor(libc: Libc, stats: SharedStats) {
    this.#numbers = stats.pauses.numbers
    this.#width = stats.pauses.width
    const usage = pinned(usageBytes)
    const usageAt = libc.addressOf(usage)
    const words = new Uint32Array(usage.buffer)
    this.#readSwitches = () => {
      libc.getrusage(usageOfThread, usageAt)
      return words[involuntaryByte / 4]!
    }
  }

  /** Counts a pause between two times of `performance.now`. */
  record(fromMs: number, toMs: number, isMaintained: boolean): void {
    const ms = toMs - fromMs
    if (toMs - this.#heapReadMs > heapAgeMsMax) this.#readCauses(toMs)
    let cause = isMaintained ? maintenance : forward
    if (ms >= examinedMs) {
      const heapBytes = this.#heapBytes
      const switches = this.#switches
      this.#readCauses(toMs)
      if (this.#heapBytes < heapBytes) cause = gc
      else if (this.#switches !== switches) cause = preempted
    }
    let bucket = 0
    while (bucket < pauseBoundsMs.length && ms > pauseBoundsMs[bucket]!) bucket += 1
    const row = cause * this.#width
    this.#numbers[row + bucket]! += 1
    this.#numbers[row + this.#width - 1]! += ms
  }

  #readCauses(nowMs: number): void {
    this.#heapBytes = getHeapStatistics().used_heap_size
    this.#heapReadMs = nowMs
    this.#switches = this.#readSwitches()
  }
}
