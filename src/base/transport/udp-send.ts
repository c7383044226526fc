// Receives and sends datagrams in batches. Thread: shred worker.
// Sends every shred of a batch to every target of one address family, with few system calls and
// without copying the payload.
//
//   vectors    one iovec per shred of the batch: data shreds from 0, code shreds from 48
//   plain      mmsghdr[shred][target]: all shreds of one kind are contiguous, so one sendmmsg
//   segmented  mmsghdr[kind][target]: all shreds of one length as one GSO segment batch
//              (UDP_SEGMENT)
//
// A GSO segment batch is sent when enough shreds of one length arrived together; the kernel splits
// it into datagrams. Once the kernel refuses that of the first target, only plain headers are used;
// a later target whose own route refuses it gets its shreds one by one.
import type { IpAddress } from '../cidr.ts'
import { assert } from '../errors.ts'
import {
  controlAt,
  controlLengthAt,
  errnos,
  flagsOfCall,
  headerBytes,
  headerWords,
  iovecBaseAt,
  iovecBytes,
  iovecCountAt,
  iovecLengthAt,
  iovecsAt,
  iovecWords,
  type Libc,
  nameAt,
  nameBytes,
  nameLengthAt,
  pinned,
  transferredAt,
  writeName,
  writePointer,
} from './udp-batch.ts'

const targetsMax = 1024
/** Fewer shreds than this are not worth a GSO segment batch. */
const segmentsMin = 4
/** Errors that one drain of the error queue reads at most. */
const errorsMax = 256
/**
 * What a kernel or a device without segmentation returns: EIO, EINVAL, EMSGSIZE, ENOPROTOOPT,
 * EOPNOTSUPP.
 */
const segmentErrnos: ReadonlySet<number> = new Set([5, errnos.inval, 90, 92, 95])
const levelUdp = 17
const optionSegment = 103
/** A cmsghdr of 16 bytes, the segment size as u16, padding to 8 bytes. */
const controlBytes = 24
const controlDataBytes = 18
/** Buffers for an error's quoted datagram, which is ignored, and for its control data. */
const quotedBytes = 64
const errorControlBytes = 512

// One message in memory: mmsghdr, iovec, socket address, payload. Byte offsets, and word indexes
// of its iovec.
const vectorByte = headerBytes
const nameByte = vectorByte + iovecBytes
const payloadByte = nameByte + nameBytes
const vectorWord = vectorByte / 4

export interface SendTarget {
  /** Its row in the product's tables. */
  readonly row: number
  readonly address: Pick<IpAddress, 'family' | 'words'>
  readonly port: number
}

/** Reports failures of sends, by the row of the target. */
interface SendEvents {
  failed(row: number, errno: number, shreds: number): void
  /** The target's own machine reported its port as unreachable. */
  refused(row: number): void
}

export class BatchSender {
  readonly #libc: Libc
  readonly #fd: number
  readonly #vectors: ShredVectors
  readonly #events: SendEvents
  readonly #names = pinned(targetsMax * nameBytes)
  readonly #plain = pinned(2 * batchMax * targetsMax * headerBytes)
  readonly #segmented = pinned(2 * targetsMax * headerBytes)
  readonly #segmentedWords = new Uint32Array(this.#segmented.buffer)
  readonly #controls = pinned(2 * controlBytes)
  readonly #single = pinned(payloadByte + slotBytes)
  readonly #error = pinned(payloadByte + quotedBytes + errorControlBytes)
  readonly #errorWords = new Uint32Array(this.#error.buffer)
  readonly #errorAt: number
  /**
   * Addresses of the first header: plain data, plain code, segmented data, segmented code. The
   * null keeps V8 from unboxing the array, which would box an address again for each call.
   */
  #firsts: readonly (number | null)[] = [null]
  #targets: readonly SendTarget[] = []
  /** Targets whose errors count: those of batches, and those of single datagrams. */
  #known: readonly SendTarget[] = []
  /** False once the kernel refused a GSO segment batch. */
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
    this.#errorAt = libc.addressOf(this.#error)
    for (const kind of [0, 1]) {
      const view = new DataView(this.#controls.buffer, kind * controlBytes)
      view.setBigUint64(0, BigInt(controlDataBytes), true)
      view.setInt32(8, levelUdp, true)
      view.setInt32(12, optionSegment, true)
      view.setUint16(16, vectors.bytes[kind]!, true)
    }
  }

  /** Replaces the targets, and those that only `sendOne` uses. Must run between batches. */
  setTargets(targets: readonly SendTarget[], singles: readonly SendTarget[] = []): void {
    assert(targets.length <= targetsMax, `at most ${targetsMax} targets`)
    this.#known = [...targets, ...singles]
    if (isSameList(targets, this.#targets)) {
      this.#targets = targets
      return
    }
    this.#targets = targets
    const plainAt = this.#libc.addressOf(this.#plain)
    const segmentedAt = this.#libc.addressOf(this.#segmented)
    this.#firsts = [
      plainAt,
      plainAt + batchMax * targets.length * headerBytes,
      segmentedAt,
      segmentedAt + targetsMax * headerBytes,
      null,
    ]
    const namesAt = this.#libc.addressOf(this.#names)
    const controlsAt = this.#libc.addressOf(this.#controls)
    const plain = new Uint32Array(this.#plain.buffer)
    for (const [index, target] of targets.entries()) {
      const name = namesAt + index * nameBytes
      const length = writeName(this.#names, index * nameBytes, target.address, target.port)
      for (let shred = 0; shred < 2 * batchMax; shred += 1) {
        // Headers of one kind are contiguous, without gaps between targets.
        const at = (shred * targets.length + index) * headerWords
        writePointer(plain, at + nameAt, name)
        plain[at + nameLengthAt] = length
        writePointer(plain, at + iovecsAt, this.#vectors.address + shred * iovecBytes)
        plain[at + iovecCountAt] = 1
      }
      for (const kind of [0, 1]) {
        const words = this.#segmentedWords
        const at = (kind * targetsMax + index) * headerWords
        writePointer(words, at + nameAt, name)
        words[at + nameLengthAt] = length
        writePointer(words, at + iovecsAt, this.#vectors.address + kind * batchMax * iovecBytes)
        writePointer(words, at + controlAt, controlsAt + kind * controlBytes)
        words[at + controlLengthAt] = controlBytes
      }
    }
  }

  /** Sends the batch to all targets. */
  send(): void {
    const targets = this.#targets.length
    if (targets === 0) return
    for (let kind = 0; kind < 2; kind += 1) {
      const count = this.#vectors.counts[kind]!
      if (count === 0) continue
      if (count >= segmentsMin && this.segments && this.#sendSegmented(kind, count)) continue
      this.#sendHeaders(this.#firsts[kind]!, count * targets, 1)
    }
  }

  /** Sends one datagram (a challenge, a probe) to an address outside the batch targets. */
  sendOne(target: SendTarget, payload: Uint8Array): void {
    const at = this.#libc.addressOf(this.#single)
    const words = new Uint32Array(this.#single.buffer)
    const nameLength = writeName(this.#single, nameByte, target.address, target.port)
    writeMessage(words, at, { nameLength, payloadBytes: payload.length })
    this.#single.set(payload, payloadByte)
    for (let attempt = 0; attempt < 3; attempt += 1) {
      if (this.#libc.sendmmsg(this.#fd, at, 1, 0) === 1) return
      this.drainErrors()
    }
    this.#events.failed(target.row, this.#libc.errno(), 0)
  }

  /** Drains the error queue and reports refusing targets; returns the number of errors read. */
  drainErrors(): number {
    const at = this.#errorAt
    const words = this.#errorWords
    const controlByte = payloadByte + quotedBytes
    let found = 0
    for (; found < errorsMax; found += 1) {
      writeMessage(words, at, { nameLength: nameBytes, payloadBytes: quotedBytes })
      writePointer(words, controlAt, at + controlByte)
      words[controlLengthAt] = errorControlBytes
      const flags = flagsOfCall.errorQueue | flagsOfCall.dontWait
      if (this.#libc.recvmsg(this.#fd, at, flags) < 0) break
      const refuser = refuserOf(
        this.#error.subarray(controlByte, controlByte + words[controlLengthAt]!),
      )
      if (refuser === null) continue
      const target = this.#targetAt(nameByte)
      // Errors of hosts on the route, and forged ones, are ignored: only the target itself counts.
      if (target !== undefined && isSame(target.address.words, refuser.words))
        this.#events.refused(target.row)
    }
    return found
  }

  #sendSegmented(kind: number, count: number): boolean {
    const targets = this.#targets.length
    for (let index = 0; index < targets; index += 1)
      this.#segmentedWords[(kind * targetsMax + index) * headerWords + iovecCountAt] = count
    return this.#sendHeaders(this.#firsts[2 + kind]!, targets, count)
  }

  /** Sends a kind's shreds to one target whose route refuses GSO, as through IPsec. */
  #sendPlain(kind: number, target: number, shreds: number): void {
    const at = this.#firsts[kind]! + target * headerBytes
    const stepBytes = this.#targets.length * headerBytes
    for (let shred = 0; shred < shreds; shred += 1)
      this.#sendHeaders(at + shred * stepBytes, 1, 1, target)
  }

  /**
   * Sends contiguous headers, the first of them to target `first`; false when GSO is unsupported
   * here and nothing was sent.
   */
  #sendHeaders(at: number, count: number, shreds: number, first = 0): boolean {
    // The usual case first: below, an address is computed, and so boxed, for each call.
    let done = this.#libc.sendmmsg(this.#fd, at, count, 0)
    if (done === count) return true
    const targets = this.#targets
    let retries = targets.length + batchMax
    for (let sent = 0; ; ) {
      if (done > 0) sent += done
      else {
        const errno = this.#libc.errno()
        // It is retried where the kernel reports an error of an earlier packet by failing it.
        const isTransient =
          errno === errnos.intr || this.drainErrors() > 0 || errno === errnos.refused
        if (!isTransient || retries === 0) {
          const isRefused = shreds > 1 && segmentErrnos.has(errno)
          if (isRefused && sent === 0) {
            this.segments = false
            return false
          }
          if (isRefused) this.#sendPlain(at === this.#firsts[2] ? 0 : 1, sent, shreds)
          else this.#events.failed(targets[(first + sent) % targets.length]!.row, errno, shreds)
          sent += 1
        } else if (errno !== errnos.intr) retries -= 1
      }
      if (sent >= count) return true
      done = this.#libc.sendmmsg(this.#fd, at + sent * headerBytes, count - sent, 0)
    }
  }

  /** The target to which the datagram of an error was sent, by the socket address at that byte. */
  #targetAt(at: number): SendTarget | undefined {
    const view = new DataView(this.#error.buffer, at)
    const port = view.getUint16(2)
    return this.#known.find(
      ({ address, port: own }) =>
        own === port &&
        (address.family === 4
          ? view.getUint32(4) === address.words[3]
          : address.words.every((word, index) => view.getUint32(8 + index * 4) === word)),
    )
  }
}

/** Fills the header and the iovec of one message whose memory begins at address `at`. */
function writeMessage(
  words: Uint32Array,
  at: number,
  { nameLength, payloadBytes }: { readonly nameLength: number; readonly payloadBytes: number },
): void {
  words.fill(0, 0, headerWords)
  writePointer(words, nameAt, at + nameByte)
  words[nameLengthAt] = nameLength
  writePointer(words, iovecsAt, at + vectorByte)
  words[iovecCountAt] = 1
  writePointer(words, vectorWord + iovecBaseAt, at + payloadByte)
  words[vectorWord + iovecLengthAt] = payloadBytes
}

function isSameList(a: readonly SendTarget[], b: readonly SendTarget[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ row, port, address }, index) => {
      const other = b[index]!
      return row === other.row && port === other.port && isSame(address.words, other.address.words)
    })
  )
}

function isSame(a: IpAddress['words'], b: IpAddress['words']): boolean {
  return a.every((word, index) => word === b[index])
}

// Lists the shreds of a batch by kind, as iovecs that all senders share.

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
    for (let index = 0; index < 2 * batchMax; index += 1)
      this.#words[index * iovecWords + iovecLengthAt] = bytes[index < batchMax ? 0 : 1]
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
    const index = kind * batchMax + this.counts[kind]!
    this.counts[kind]! += 1
    writePointer(this.#words, index * iovecWords + iovecBaseAt, address)
  }
}

// Receives datagrams in batches (recvmmsg), straight into one shared arena.
// A receive returns as soon as one packet is there, with all others that are queued: it never waits
// to fill a batch. Nothing is allocated per packet.

/** Packets per call. 48 of the longest shreds fit into one GSO segment batch. */
export const batchMax = 48
/** Larger than any datagram we accept, so that an oversized one shows by its length. */
export const slotBytes = 2048

const v6Family = 10

export class BatchReceiver {
  readonly arena: Uint8Array
  /** Memory address of the arena, to send from it without a copy. */
  readonly arenaAddress: number
  /** The calls with their arguments: an address in a field would be boxed for each call. */
  readonly #wait: () => number
  readonly #poll: () => number
  readonly #headerWords: Uint32Array
  readonly #names: Uint8Array
  readonly #nameView: DataView

  constructor(libc: Libc, fd: number) {
    this.arena = pinned(batchMax * slotBytes)
    this.arenaAddress = libc.addressOf(this.arena)
    const vectors = pinned(batchMax * iovecBytes)
    const headers = pinned(batchMax * headerBytes)
    this.#names = pinned(batchMax * nameBytes)
    this.#nameView = new DataView(this.#names.buffer)
    const headersAt = libc.addressOf(headers)
    const { waitForOne, dontWait } = flagsOfCall
    this.#wait = () => libc.recvmmsg(fd, headersAt, batchMax, waitForOne, 0)
    this.#poll = () => libc.recvmmsg(fd, headersAt, batchMax, dontWait, 0)
    this.#headerWords = new Uint32Array(headers.buffer)
    const vectorWords = new Uint32Array(vectors.buffer)
    const vectorsAt = libc.addressOf(vectors)
    const namesAt = libc.addressOf(this.#names)
    for (let index = 0; index < batchMax; index += 1) {
      const vector = index * iovecWords
      writePointer(vectorWords, vector + iovecBaseAt, this.arenaAddress + index * slotBytes)
      vectorWords[vector + iovecLengthAt] = slotBytes
      const header = index * headerWords
      writePointer(this.#headerWords, header + nameAt, namesAt + index * nameBytes)
      this.#headerWords[header + nameLengthAt] = nameBytes
      writePointer(this.#headerWords, header + iovecsAt, vectorsAt + index * iovecBytes)
      this.#headerWords[header + iovecCountAt] = 1
    }
  }

  /** Number of packets received; 0 after the socket's timeout, or at once when `waits` is false. */
  receive(waits: boolean): number {
    const count = waits ? this.#wait() : this.#poll()
    return Math.max(count, 0)
  }

  lengthOf(index: number): number {
    return this.#headerWords[index * headerWords + transferredAt]!
  }

  /** The sender's IPv4 address as a number, also when it is IPv4-mapped; -1 for IPv6. */
  senderOf(index: number): number {
    const at = index * nameBytes
    if (this.#names[at] !== v6Family) return this.#nameView.getUint32(at + 4)
    const isMapped =
      this.#nameView.getUint32(at + 8) === 0 &&
      this.#nameView.getUint32(at + 12) === 0 &&
      this.#nameView.getUint32(at + 16) === 0xffff
    return isMapped ? this.#nameView.getUint32(at + 20) : -1
  }

  /** The sender's IPv6 address as four words. */
  wordsOf(index: number): [number, number, number, number] {
    const at = index * nameBytes + 8
    const wordAt = (word: number) => this.#nameView.getUint32(at + word * 4)
    return [wordAt(0), wordAt(1), wordAt(2), wordAt(3)]
  }

  portOf(index: number): number {
    return this.#nameView.getUint16(index * nameBytes + 2)
  }

  /** Whether a packet came from that address and port, without allocation. */
  isFrom(index: number, address: Pick<IpAddress, 'family' | 'words'>, port: number): boolean {
    if (this.portOf(index) !== port) return false
    const { family, words } = address
    const sender = this.senderOf(index)
    if (family === 4 || sender >= 0) return family === 4 && sender === words[3]
    const at = index * nameBytes + 8
    for (let word = 0; word < 4; word += 1)
      if (this.#nameView.getUint32(at + word * 4) !== words[word]) return false
    return true
  }

  payloadOf(index: number): Uint8Array {
    const at = index * slotBytes
    return this.arena.subarray(at, at + this.lengthOf(index))
  }
}

// Parses the control data of a socket's error queue: which address reported which ICMP error.
// An ICMP packet is easy to forge, and hosts on the route send them too; only
// "port unreachable" counts here, together with the address that it came from.
//
//   cmsghdr  16: length u64 | level i32 | type i32
//   sock_extended_err 16: errno u32 | origin u8 | type u8 | code u8 | - | info u32 | data u32
//   then the sender's socket address: family u16 | port u16 | IPv4 4, or flow 4 and IPv6 16

const controlHeadBytes = 16
const errorBytes = 16
const refused = 111

/** By family: level and type of the control message, origin, ICMP type and code. */
const portUnreachable = {
  4: { level: 0, type: 11, origin: 2, icmpType: 3, icmpCode: 3, family: 2, nameBytes: 16 },
  6: { level: 41, type: 25, origin: 3, icmpType: 1, icmpCode: 4, family: 10, nameBytes: 28 },
} as const

/** The address that reported a port as unreachable; null for any other control data. */
export function refuserOf(control: Uint8Array): Pick<IpAddress, 'family' | 'words'> | null {
  const view = new DataView(control.buffer, control.byteOffset, control.length)
  for (let at = 0; at + controlHeadBytes <= control.length; ) {
    const length = Number(view.getBigUint64(at, true))
    if (length < controlHeadBytes || at + length > control.length) return null
    for (const family of [4, 6] as const) {
      const refuser = refuserIn(view, at, length, family)
      if (refuser !== null) return refuser
    }
    at += Math.ceil(length / 8) * 8
  }
  return null
}

function refuserIn(
  view: DataView,
  at: number,
  length: number,
  family: 4 | 6,
): Pick<IpAddress, 'family' | 'words'> | null {
  const expected = portUnreachable[family]
  const error = at + controlHeadBytes
  const name = error + errorBytes
  const isMatch =
    length >= controlHeadBytes + errorBytes + expected.nameBytes &&
    view.getInt32(at + 8, true) === expected.level &&
    view.getInt32(at + 12, true) === expected.type &&
    view.getUint32(error, true) === refused &&
    view.getUint8(error + 4) === expected.origin &&
    view.getUint8(error + 5) === expected.icmpType &&
    view.getUint8(error + 6) === expected.icmpCode &&
    view.getUint16(name, true) === expected.family
  if (!isMatch) return null
  if (family === 4) return { family, words: [0, 0, 0, view.getUint32(name + 4)] }
  const word = (index: number) => view.getUint32(name + 8 + index * 4)
  return { family, words: [word(0), word(1), word(2), word(3)] }
}
