// Sends every shred of a batch to every target of one address family, with few system calls and
// without touching the payload. Thread: shred worker.
//
//   vectors   one per shred of the batch: data shreds from 0, code shreds from 48
//   grid      mmsghdr[shred][target]: a whole batch is one run of it, so one sendmmsg
//   trains    mmsghdr[kind][target]: all shreds of one length as one segmented send (UDP_SEGMENT)
//
// A train goes out where enough shreds of one length came in together; the kernel cuts it. Where
// it refuses, the plain grid is used from then on.
import { assert } from '../base/assert.ts'
import type { IpAddress } from '../base/cidr.ts'
import {
  errnos,
  flagsOfCall,
  headerBytes,
  iovecBytes,
  type Libc,
  nameBytes,
  pinned,
  writeName,
  writePointer,
} from './udp-batch.ts'
import { refuserOf } from './udp-errors.ts'
import { batchMax, slotBytes } from './udp-receive.ts'

export const targetsMax = 256
/** Fewer shreds than this are not worth a train. */
const trainMin = 4
/** Datagrams that one look at the error queue takes. */
const errorsMax = 256
/** What a kernel or a device without segmentation answers: EIO, EINVAL, EMSGSIZE, ENOPROTOOPT. */
const trainRefusals: ReadonlySet<number> = new Set([5, errnos.inval, 90, 92, 95])
const levelUdp = 17
const optionSegment = 103
const controlBytes = 24
/** Room for what an error quotes of its datagram, which is not looked at, and for control data. */
const quotedBytes = 64
const errorControlBytes = 512

export interface SendTarget {
  /** Its row in the tables of the product. */
  readonly row: number
  readonly address: Pick<IpAddress, 'family' | 'words'>
  readonly port: number
}

/** What happens to single sends; rows are those of the targets. */
export interface SendEvents {
  failed(row: number, errno: number, shreds: number): void
  /** The target's own machine reported its port as unreachable. */
  refused(row: number): void
}

/** The shreds of a batch by kind, as vectors that all senders share. */
export class ShredVectors {
  readonly address: number
  readonly counts = [0, 0]
  readonly bytes: readonly [number, number]
  readonly #words: Uint32Array

  constructor(libc: Libc, bytes: readonly [number, number]) {
    const memory = pinned(2 * batchMax * iovecBytes)
    this.bytes = bytes
    this.address = libc.addressOf(memory)
    this.#words = new Uint32Array(memory.buffer)
    for (let place = 0; place < 2 * batchMax; place += 1)
      this.#words[place * 4 + 2] = bytes[place < batchMax ? 0 : 1]
  }

  get total(): number {
    return this.counts[0]! + this.counts[1]!
  }

  clear(): void {
    this.counts[0] = 0
    this.counts[1] = 0
  }

  /** Adds a shred by the address of its first byte; kind 0 is data, 1 is code. */
  add(kind: 0 | 1, address: number): void {
    const place = kind * batchMax + this.counts[kind]!
    this.counts[kind]! += 1
    writePointer(this.#words, place * 4, address)
  }
}

export class BatchSender {
  readonly #libc: Libc
  readonly #fd: number
  readonly #vectors: ShredVectors
  readonly #events: SendEvents
  readonly #names = pinned(targetsMax * nameBytes)
  readonly #grid = pinned(2 * batchMax * targetsMax * headerBytes)
  readonly #trains = pinned(2 * targetsMax * headerBytes)
  readonly #trainWords = new Uint32Array(this.#trains.buffer)
  readonly #controls = pinned(2 * controlBytes)
  readonly #single = pinned(headerBytes + iovecBytes + nameBytes + slotBytes)
  readonly #error = pinned(headerBytes + iovecBytes + nameBytes + quotedBytes + errorControlBytes)
  readonly #gridAt: number
  readonly #trainsAt: number
  #targets: readonly SendTarget[] = []
  /** All whose errors count: the targets, and those that are sent single datagrams. */
  #known: readonly SendTarget[] = []
  /** False once the kernel refused a train. */
  segments: boolean

  constructor(
    libc: Libc,
    fd: number,
    vectors: ShredVectors,
    options: { readonly events: SendEvents; readonly segments: boolean },
  ) {
    this.#libc = libc
    this.#fd = fd
    this.#vectors = vectors
    this.#events = options.events
    this.segments = options.segments
    this.#gridAt = libc.addressOf(this.#grid)
    this.#trainsAt = libc.addressOf(this.#trains)
    for (const kind of [0, 1]) {
      const view = new DataView(this.#controls.buffer, kind * controlBytes)
      view.setBigUint64(0, 18n, true)
      view.setInt32(8, levelUdp, true)
      view.setInt32(12, optionSegment, true)
      view.setUint16(16, vectors.bytes[kind]!, true)
    }
  }

  /** Replaces the targets, and those that only `sendOne` reaches; called between batches only. */
  setTargets(targets: readonly SendTarget[], singles: readonly SendTarget[] = []): void {
    assert(targets.length <= targetsMax, `at most ${targetsMax} targets`)
    this.#targets = targets
    this.#known = [...targets, ...singles]
    const namesAt = this.#libc.addressOf(this.#names)
    const controlsAt = this.#libc.addressOf(this.#controls)
    const grid = new Uint32Array(this.#grid.buffer)
    for (const [place, target] of targets.entries()) {
      const name = namesAt + place * nameBytes
      const length = writeName(this.#names, place * nameBytes, target.address, target.port)
      for (let shred = 0; shred < 2 * batchMax; shred += 1) {
        // The two kinds are two grids, so that a run of either is without gaps.
        const at = (shred * targets.length + place) * 16
        writePointer(grid, at, name)
        grid[at + 2] = length
        writePointer(grid, at + 4, this.#vectors.address + shred * iovecBytes)
        grid[at + 6] = 1
      }
      for (const kind of [0, 1]) {
        const at = (kind * targetsMax + place) * 16
        writePointer(this.#trainWords, at, name)
        this.#trainWords[at + 2] = length
        writePointer(this.#trainWords, at + 4, this.#vectors.address + kind * batchMax * iovecBytes)
        writePointer(this.#trainWords, at + 8, controlsAt + kind * controlBytes)
        this.#trainWords[at + 10] = controlBytes
      }
    }
  }

  /** Sends the batch in the vectors to all targets. */
  send(): void {
    const targets = this.#targets.length
    if (targets === 0) return
    for (const kind of [0, 1]) {
      const count = this.#vectors.counts[kind]!
      if (count === 0) continue
      if (count >= trainMin && this.segments && this.#sendTrains(kind, count)) continue
      const first = kind * batchMax * targets
      this.#run(this.#gridAt + first * headerBytes, count * targets, 1)
    }
  }

  /** One datagram (a challenge, a probe) to an address that is none of the targets. */
  sendOne(target: SendTarget, payload: Uint8Array): void {
    const at = this.#libc.addressOf(this.#single)
    const words = new Uint32Array(this.#single.buffer)
    const nameAt = headerBytes + iovecBytes
    words.fill(0, 0, 16)
    writePointer(words, 0, at + nameAt)
    words[2] = writeName(this.#single, nameAt, target.address, target.port)
    writePointer(words, 4, at + headerBytes)
    words[6] = 1
    writePointer(words, 16, at + nameAt + nameBytes)
    words[18] = payload.length
    this.#single.set(payload, nameAt + nameBytes)
    for (let attempt = 0; attempt < 3; attempt += 1) {
      if (this.#libc.sendmmsg(this.#fd, at, 1, 0) === 1) return
      this.drainErrors()
    }
    this.#events.failed(target.row, this.#libc.errno(), 0)
  }

  /** Reads the error queue and reports who refused; gives how many errors there were. */
  drainErrors(): number {
    const at = this.#libc.addressOf(this.#error)
    const words = new Uint32Array(this.#error.buffer)
    const nameAt = headerBytes + iovecBytes
    const controlAt = nameAt + nameBytes + quotedBytes
    let found = 0
    for (; found < errorsMax; found += 1) {
      words.fill(0, 0, 16)
      writePointer(words, 0, at + nameAt)
      words[2] = nameBytes
      writePointer(words, 4, at + headerBytes)
      words[6] = 1
      writePointer(words, 16, at + nameAt + nameBytes)
      words[18] = quotedBytes
      writePointer(words, 8, at + controlAt)
      words[10] = errorControlBytes
      const flags = flagsOfCall.errorQueue | flagsOfCall.dontWait
      if (this.#libc.recvmsg(this.#fd, at, flags) < 0) break
      const refuser = refuserOf(this.#error.subarray(controlAt, controlAt + words[10]!))
      if (refuser === null) continue
      const target = this.#targetAt(nameAt)
      // Hosts on the way, and whoever forges, are not asked: only the target's own machine knows.
      if (target !== undefined && isSame(target.address.words, refuser.words))
        this.#events.refused(target.row)
    }
    return found
  }

  #sendTrains(kind: number, count: number): boolean {
    const targets = this.#targets.length
    for (let place = 0; place < targets; place += 1)
      this.#trainWords[(kind * targetsMax + place) * 16 + 6] = count
    return this.#run(this.#trainsAt + kind * targetsMax * headerBytes, targets, count)
  }

  /** Sends a run of headers; false when trains are not taken here and nothing was sent. */
  #run(at: number, count: number, shreds: number): boolean {
    const targets = this.#targets
    let retries = targets.length + batchMax
    for (let sent = 0; sent < count; ) {
      const done = this.#libc.sendmmsg(this.#fd, at + sent * headerBytes, count - sent, 0)
      if (done > 0) {
        sent += done
        continue
      }
      const errno = this.#libc.errno()
      if (errno === errnos.intr) continue
      // An answer to an earlier packet is told by failing this one; it is sent again.
      if (this.drainErrors() > 0 || errno === errnos.refused) {
        retries -= 1
        if (retries > 0) continue
      }
      if (shreds > 1 && sent === 0 && trainRefusals.has(errno)) {
        this.segments = false
        return false
      }
      this.#events.failed(targets[sent % targets.length]!.row, errno, shreds)
      sent += 1
    }
    return true
  }

  /** The one to whom the datagram of an error was sent, by the address at that place. */
  #targetAt(at: number): SendTarget | undefined {
    const view = new DataView(this.#error.buffer, at)
    const port = view.getUint16(2)
    return this.#known.find(
      ({ address, port: own }) =>
        own === port &&
        (address.family === 4
          ? view.getUint32(4) === address.words[3]
          : address.words.every((word, place) => view.getUint32(8 + place * 4) === word)),
    )
  }
}

function isSame(a: IpAddress['words'], b: IpAddress['words']): boolean {
  return a.every((word, place) => word === b[place])
}
