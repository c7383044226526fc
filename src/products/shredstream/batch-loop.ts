// Runs the shred pipeline on batched system calls. Thread: shred worker, which the loop blocks.
//
//   recvmmsg ─► admit each, no copy ─► vectors ─► sendmmsg to every target ─► one step of long work
//        every 2 ms one of: count, targets and challenges | errors | echoes | reports
import { type Libc, pinned } from '../../base/transport/udp-batch.ts'
import { BatchReceiver, batchMax, slotBytes } from '../../base/transport/udp-receive.ts'
import { BatchSender, type SendTarget, ShredVectors } from '../../base/transport/udp-send.ts'
import { codeShredBytes, dataShredBytes } from '../../chain/solana/shred.ts'
import { verdicts } from './admit.ts'
import { closeSockets, openSockets } from './batch-sockets.ts'
import { Caps } from './caps.ts'
import { Pauses } from './pauses.ts'
import { ioNames } from './shared-stats.ts'
import type { ShredComponents, WorkerSettings } from './shred-components.ts'
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
