// Receives datagrams in batches (recvmmsg), straight into one shared arena. Thread: shred worker.
// A receive returns as soon as one packet is there, with all others that are queued: it never waits
// to fill a batch. Nothing is allocated per packet.
import type { IpAddress } from '../cidr.ts'
import {
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
  writePointer,
} from './udp-batch.ts'

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
