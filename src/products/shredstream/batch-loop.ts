// The shred pipeline on batched system calls. Thread: shred worker; the loop owns it.
//
//   recvmmsg ─► admit each in place ─► vectors ─► sendmmsg to every target ─► one step of long work
//        every 10 ms: targets changed? challenges due? echoes? errors? stop?
import { codeShredBytes, dataShredBytes } from '../../solana/shred.ts'
import { type Libc, pinned } from '../../transport/udp-batch.ts'
import { BatchReceiver, batchMax, slotBytes } from '../../transport/udp-receive.ts'
import { BatchSender, type SendTarget, ShredVectors } from '../../transport/udp-send.ts'
import { verdicts } from './admit.ts'
import { closeSockets, openSockets } from './batch-sockets.ts'
import { ioNames } from './board.ts'
import { Caps } from './caps.ts'
import type { ShredParts, WorkerSettings } from './handle.ts'
import { rowsMax } from './targets.ts'

const choreMs = 10
/** The source port is emptied of what came back for at most this long in one go. */
const drainMsMax = 2

interface OutDoor {
  readonly family: 4 | 6
  readonly sender: BatchSender
  readonly receiver: BatchReceiver
}

export class BatchLoop {
  readonly #libc: Libc
  readonly #parts: ShredParts
  readonly #settings: WorkerSettings
  readonly #ingest: BatchReceiver
  readonly #vectors: ShredVectors
  readonly #outs: readonly OutDoor[]
  readonly #caps: Caps
  /** Where shreds lie that are sent later than they came. */
  readonly #late = pinned(batchMax * slotBytes)
  readonly #lateAt: number
  #rows: readonly number[] = []
  #muted: readonly number[] = []
  #choresAtMs = 0

  constructor(libc: Libc, parts: ShredParts, settings: WorkerSettings) {
    this.#libc = libc
    this.#parts = parts
    this.#settings = settings
    const { board, book } = parts
    const fds = openSockets(libc, board, settings)
    this.#ingest = new BatchReceiver(libc, fds.ingest)
    this.#vectors = new ShredVectors(libc, [dataShredBytes, codeShredBytes])
    this.#lateAt = libc.addressOf(this.#late)
    this.#caps = new Caps(settings.caps, rowsMax)
    const door = (family: 4 | 6, fd: number): OutDoor => ({
      family,
      sender: new BatchSender(libc, fd, this.#vectors, {
        events: {
          failed: (...about) => book.failed(...about),
          refused: (row) => book.refused(row),
        },
        segments: settings.segments,
      }),
      receiver: new BatchReceiver(libc, fd),
    })
    this.#outs = [
      ...(fds.out4 > 0 ? [door(4, fds.out4)] : []),
      ...(fds.out6 > 0 ? [door(6, fds.out6)] : []),
    ]
    this.#showIo()
  }

  /** Until `isStopped` says so; looked at between batches. */
  run(isStopped: () => boolean): void {
    const { idle } = this.#settings
    const { admission } = this.#parts
    // Who is served is known before the first packet: after a restart many are waiting.
    this.#follow()
    while (!isStopped()) {
      const count = this.#ingest.receive(idle === 'sleep' && !admission.isBusy)
      const nowMs = this.#parts.nowMs()
      if (count > 0) this.#forward(count, nowMs)
      else if (idle === 'yield') this.#libc.sched_yield()
      if (admission.isBusy) this.#forwardLate(admission.step(nowMs), nowMs)
      if (nowMs - this.#choresAtMs >= choreMs || this.#parts.book.isStale) this.#chores(nowMs)
    }
    this.#count()
    closeSockets(this.#libc, this.#parts.board)
  }

  #forward(count: number, nowMs: number): void {
    const { admission, sources, board, book } = this.#parts
    const ingest = this.#ingest
    this.#vectors.clear()
    for (let place = 0; place < count; place += 1) {
      const sender = ingest.senderOf(place)
      const source = sender < 0 ? sources.findV6(ingest.wordsOf(place)) : sources.find(sender)
      const at = place * slotBytes
      const length = ingest.lengthOf(place)
      const verdict = admission.admit(ingest.arena, at, length, source, nowMs)
      if (verdict === verdicts.drop) continue
      if (book.probing.length > 0) this.#probe(ingest.arena, at, verdict, nowMs)
      this.#vectors.add(verdict, ingest.arenaAddress + at)
    }
    board.totals.add(0, 'batches', 1)
    this.#send(nowMs)
  }

  /** Sends a shred to the paused targets that are due one. */
  #probe(arena: Uint8Array, at: number, verdict: 0 | 1, nowMs: number): void {
    const { book } = this.#parts
    const bytes = verdict === verdicts.code ? codeShredBytes : dataShredBytes
    for (const target of book.dueProbes(nowMs)) {
      this.#doorOf(target)?.sender.sendOne(target, arena.subarray(at, at + bytes))
      book.countSent([target.row], 1, bytes, nowMs)
    }
  }

  /** Sends shreds that were rebuilt, or held until their leader was known. */
  #forwardLate(shreds: readonly Uint8Array[], nowMs: number): void {
    if (shreds.length === 0) return
    let place = 0
    this.#vectors.clear()
    for (const shred of shreds) {
      this.#late.set(shred, place * slotBytes)
      const kind = shred.length === codeShredBytes ? verdicts.code : verdicts.data
      this.#vectors.add(kind, this.#lateAt + place * slotBytes)
      place += 1
      if (place < batchMax) continue
      this.#send(nowMs)
      this.#vectors.clear()
      place = 0
    }
    this.#send(nowMs)
  }

  #send(nowMs: number): void {
    const { total, counts } = this.#vectors
    if (total === 0 || this.#rows.length === 0) return
    const bytes = counts[0]! * dataShredBytes + counts[1]! * codeShredBytes
    if (this.#caps.charge(this.#rows, total, bytes, nowMs)) this.#setTargets()
    for (const { sender } of this.#outs) sender.send()
    const { numbers } = this.#parts.board.tally
    numbers[0]! += total
    numbers[1]! += bytes
    numbers[2] = nowMs
  }

  /** Counting for each target at each batch would cost more than a packet does. */
  #count(): void {
    const { book, board } = this.#parts
    const { packets, bytes, sentMs } = board.tally.row(0)
    if (packets === 0) return
    const muted = this.#muted
    const served = this.#rows.filter((row) => !muted.includes(row))
    book.countSent(served, packets, bytes, sentMs)
    if (muted.length > 0) book.countCapped(muted, packets)
    board.tally.clear(0)
  }

  #chores(nowMs: number): void {
    const { book } = this.#parts
    this.#choresAtMs = nowMs
    this.#count()
    this.#follow()
    for (const target of book.dueChallenges())
      this.#doorOf(target)?.sender.sendOne(target, this.#parts.challengeOf(target))
    for (const { sender, receiver } of this.#outs) {
      sender.drainErrors()
      this.#drainEchoes(receiver)
    }
    book.report(nowMs)
    this.#showIo()
  }

  /**
   * Empties the source port, also while nobody is challenged: junk that was left there would keep
   * the next echo out. Only what comes from a challenged address is looked at.
   */
  #drainEchoes(receiver: BatchReceiver): void {
    const { book, nowMs } = this.#parts
    const untilMs = nowMs() + drainMsMax
    let count = batchMax
    while (count === batchMax && nowMs() < untilMs) {
      count = receiver.receive(false)
      for (const { address, port } of book.challenged)
        for (let place = 0; place < count; place += 1)
          if (receiver.isFrom(place, address, port))
            book.heard(address, port, receiver.payloadOf(place))
    }
  }

  #follow(): void {
    const { book } = this.#parts
    if (!book.refresh()) return
    const before = new Set(this.#rows)
    this.#rows = book.serving.map(({ row }) => row)
    for (const row of this.#rows) if (!before.has(row)) this.#caps.reset(row)
    this.#setTargets()
    book.settle()
  }

  #setTargets(): void {
    this.#count()
    const { serving, challenged, probing } = this.#parts.book
    this.#muted = this.#rows.filter((row) => this.#caps.isMuted(row))
    const live = serving.filter(({ row }) => !this.#caps.isMuted(row))
    const singles = [...challenged, ...probing]
    for (const { sender, family } of this.#outs) {
      const isOurs = ({ address }: SendTarget) => address.family === family
      sender.setTargets(live.filter(isOurs), singles.filter(isOurs))
    }
  }

  #doorOf({ address }: SendTarget): OutDoor | undefined {
    return this.#outs.find(({ family }) => family === address.family)
  }

  #showIo(): void {
    const cuts = this.#outs.some(({ sender }) => sender.segments)
    const io = cuts ? 'batch-segments' : 'batch'
    this.#parts.board.sockets.set(0, 'io', ioNames.indexOf(io))
  }
}
