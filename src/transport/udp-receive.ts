// Receives datagrams in batches, straight into one shared arena. Thread: shred worker.
// Returns as soon as one packet is there, with all that wait beside it: it never waits to fill a
// batch. Nothing is allocated for a packet.
import type { IpAddress } from '../base/cidr.ts'
import {
  flagsOfCall,
  headerBytes,
  iovecBytes,
  type Libc,
  nameBytes,
  pinned,
  writePointer,
} from './udp-batch.ts'

/** Packets of one call. 48 of the longest shreds are one segment train. */
export const batchMax = 48
/** Larger than any datagram we take, so that a longer one shows by its length. */
export const slotBytes = 2048

const v6Family = 10

export class BatchReceiver {
  readonly arena: Uint8Array
  /** Where the arena lies, for those who send out of it. */
  readonly arenaAddress: number
  readonly #libc: Libc
  readonly #fd: number
  readonly #headers: number
  readonly #headerWords: Uint32Array
  readonly #names: Uint8Array
  readonly #nameView: DataView

  constructor(libc: Libc, fd: number) {
    this.#libc = libc
    this.#fd = fd
    this.arena = pinned(batchMax * slotBytes)
    this.arenaAddress = libc.addressOf(this.arena)
    const vectors = pinned(batchMax * iovecBytes)
    const headers = pinned(batchMax * headerBytes)
    this.#names = pinned(batchMax * nameBytes)
    this.#nameView = new DataView(this.#names.buffer)
    this.#headers = libc.addressOf(headers)
    this.#headerWords = new Uint32Array(headers.buffer)
    const vectorWords = new Uint32Array(vectors.buffer)
    const vectorsAt = libc.addressOf(vectors)
    const namesAt = libc.addressOf(this.#names)
    for (let place = 0; place < batchMax; place += 1) {
      writePointer(vectorWords, place * 4, this.arenaAddress + place * slotBytes)
      vectorWords[place * 4 + 2] = slotBytes
      const header = place * 16
      writePointer(this.#headerWords, header, namesAt + place * nameBytes)
      this.#headerWords[header + 2] = nameBytes
      writePointer(this.#headerWords, header + 4, vectorsAt + place * iovecBytes)
      this.#headerWords[header + 6] = 1
    }
  }

  /** Packets received: at least one, or 0 when none came in time or, not waiting, none is there. */
  receive(waits: boolean): number {
    const flags = waits ? flagsOfCall.waitForOne : flagsOfCall.dontWait
    const count = this.#libc.recvmmsg(this.#fd, this.#headers, batchMax, flags, 0)
    return Math.max(count, 0)
  }

  lengthOf(place: number): number {
    return this.#headerWords[place * 16 + 14]!
  }

  /** The sender's IPv4 address as a number, also when an IPv6 socket shows it; -1 for IPv6. */
  senderOf(place: number): number {
    const at = place * nameBytes
    if (this.#names[at] !== v6Family) return this.#nameView.getUint32(at + 4)
    const isMapped =
      this.#nameView.getUint32(at + 8) === 0 &&
      this.#nameView.getUint32(at + 12) === 0 &&
      this.#nameView.getUint32(at + 16) === 0xffff
    return isMapped ? this.#nameView.getUint32(at + 20) : -1
  }

  /** The words of an IPv6 sender. */
  wordsOf(place: number): [number, number, number, number] {
    const at = place * nameBytes + 8
    const word = (index: number) => this.#nameView.getUint32(at + index * 4)
    return [word(0), word(1), word(2), word(3)]
  }

  portOf(place: number): number {
    return this.#nameView.getUint16(place * nameBytes + 2)
  }

  /** Whether a packet came from that address and port; allocates nothing. */
  isFrom(place: number, address: Pick<IpAddress, 'family' | 'words'>, port: number): boolean {
    if (this.portOf(place) !== port) return false
    const { family, words } = address
    const sender = this.senderOf(place)
    if (family === 4 || sender >= 0) return family === 4 && sender === words[3]
    const at = place * nameBytes + 8
    for (let index = 0; index < 4; index += 1)
      if (this.#nameView.getUint32(at + index * 4) !== words[index]) return false
    return true
  }

  payloadOf(place: number): Uint8Array {
    const at = place * slotBytes
    return this.arena.subarray(at, at + this.lengthOf(place))
  }
}
