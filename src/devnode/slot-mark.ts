// Remembers the newest complete slot, also while the journal is not written. Thread: main of the
// devnode. The file is overwritten in place, which a full disk allows: a chain that lost blocks
// goes on after the slots that were seen, so that none of them comes again with another content.
//
//   slot u64 | crc32 u32
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'

const markBytes = 12

export class SlotMark {
  /** As the file had it at the start; -1 for none. */
  readonly slot: number
  readonly #fd: number
  readonly #bytes = Buffer.alloc(markBytes)

  private constructor(fd: number) {
    this.#fd = fd
    const bytes = this.#bytes
    const isWhole =
      readSync(fd, bytes, 0, markBytes, 0) === markBytes && bytes.readUInt32LE(8) === sumOf(bytes)
    this.slot = isWhole ? Number(bytes.readBigUInt64LE(0)) : -1
  }

  static open(path: string): SlotMark {
    try {
      return new SlotMark(openSync(path, 'r+'))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    return new SlotMark(openSync(path, 'wx+', 0o600))
  }

  /** Never throws: a disk that refuses even this is reported by the journal. */
  set(slot: number): void {
    this.#bytes.writeBigUInt64LE(BigInt(slot), 0)
    this.#bytes.writeUInt32LE(sumOf(this.#bytes), 8)
    try {
      writeSync(this.#fd, this.#bytes, 0, markBytes, 0)
    } catch {}
  }

  close(): void {
    closeSync(this.#fd)
  }
}

function sumOf(bytes: Buffer): number {
  return crc32(bytes.subarray(0, 8))
}
