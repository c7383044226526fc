// The shred road on batched system calls. Thread: shred worker; the loop owns it.
//
//   recvmmsg ─► admit each in place ─► vectors ─► sendmmsg to every target ─► again
//        every 10 ms: targets changed? challenges due? echoes? refusals? stop?
//
// The sockets belong to the process and not to this thread: their descriptors stand on the board,
// and a restarted worker goes on with them, so that the kernel keeps what arrives meanwhile.
import { parseAddress } from '../../base/cidr.ts'
import { Fault } from '../../base/errors.ts'
import { codeShredBytes, dataShredBytes } from '../../solana/shred.ts'
import {
  boundPort,
  grantedBytes,
  type Libc,
  openSocket,
  pinned,
  type SocketOptions,
} from '../../transport/udp-batch.ts'
import { BatchReceiver, batchMax, slotBytes } from '../../transport/udp-receive.ts'
import { BatchSender, type SendTarget, ShredVectors } from '../../transport/udp-send.ts'
import { verdicts } from './admit.ts'
import { type Board, ioNames } from './board.ts'
import { Caps } from './caps.ts'
import type { ShredParts, WorkerSettings } from './handle.ts'
import { rowsMax } from './targets.ts'

/** How long a receive waits: a stop or a new target is seen within this. */
const waitMs = 20
const choreMs = 10

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
  readonly #rebuilt = pinned(batchMax * slotBytes)
  readonly #rebuiltAt: number
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
    this.#rebuiltAt = libc.addressOf(this.#rebuilt)
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
    // Who is served is known before the first packet: after a restart many are waiting.
    this.#follow()
    while (!isStopped()) {
      const count = this.#ingest.receive(idle === 'sleep')
      const nowMs = this.#parts.nowMs()
      if (count > 0) this.#forward(count, nowMs)
      else if (idle === 'yield') this.#libc.sched_yield()
      if (nowMs - this.#choresAtMs >= choreMs || this.#parts.book.isStale) this.#chores(nowMs)
    }
    this.#count()
    closeSockets(this.#libc, this.#parts.board)
  }

  #forward(count: number, nowMs: number): void {
    const { admission, sources, recovery, board } = this.#parts
    const ingest = this.#ingest
    this.#vectors.clear()
    for (let place = 0; place < count; place += 1) {
      const sender = ingest.senderOf(place)
      const source = sender < 0 ? sources.findV6(ingest.wordsOf(place)) : sources.find(sender)
      const at = place * slotBytes
      const length = ingest.lengthOf(place)
      const verdict = admission.admit(ingest.arena, at, length, source, nowMs)
      if (verdict !== verdicts.drop) this.#vectors.add(verdict, ingest.arenaAddress + at)
    }
    board.totals.add(0, 'batches', 1)
    this.#send(nowMs)
    if (recovery !== null) this.#forwardRebuilt(nowMs)
  }

  #forwardRebuilt(nowMs: number): void {
    const { recovery, admission } = this.#parts
    let place = 0
    this.#vectors.clear()
    for (const shred of recovery!.take()) {
      if (!admission.admitRebuilt(shred, nowMs)) continue
      this.#rebuilt.set(shred, place * slotBytes)
      const kind = shred.length === codeShredBytes ? verdicts.code : verdicts.data
      this.#vectors.add(kind, this.#rebuiltAt + place * slotBytes)
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
    for (const { sender, receiver, family } of this.#outs) {
      sender.drainErrors()
      const count = book.challenged.length > 0 ? receiver.receive(false) : 0
      for (let place = 0; place < count; place += 1) {
        const at = place * slotBytes
        const payload = receiver.arena.subarray(at, at + receiver.lengthOf(place))
        const key = receiver.senderOf(place)
        const words: [number, number, number, number] =
          key < 0 ? receiver.wordsOf(place) : [0, 0, 0, key]
        book.heard({ family: key < 0 ? family : 4, words }, receiver.portOf(place), payload)
      }
    }
    book.tellRefusals(nowMs)
    this.#showIo()
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
    const { serving } = this.#parts.book
    this.#muted = this.#rows.filter((row) => this.#caps.isMuted(row))
    const live = serving.filter(({ row }) => !this.#caps.isMuted(row))
    for (const { sender, family } of this.#outs)
      sender.setTargets(live.filter(({ address }) => address.family === family))
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

interface Descriptors {
  readonly ingest: number
  readonly out4: number
  readonly out6: number
}

/** The sockets of the worker before this one, or new ones. Descriptor 0 means none. */
function openSockets(libc: Libc, board: Board, settings: WorkerSettings): Descriptors {
  const { sockets } = board
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
  for (const [place, host] of settings.sourceHosts.entries()) {
    const isV4 = parseAddress(host)?.family === 4
    const about = { ...base, host, port, keepsErrors: true, isV6Only: true }
    // The second one is IPv6, which a machine may not have.
    const fd = place === 0 ? openSocket(libc, about) : tryOpen(libc, about)
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

function closeSockets(libc: Libc, board: Board): void {
  for (const name of ['ingest', 'out4', 'out6'] as const) {
    const fd = board.sockets.get(0, name)
    board.sockets.set(0, name, 0)
    if (fd > 0) libc.close(fd)
  }
}
