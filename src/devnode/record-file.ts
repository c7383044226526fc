// Writes and reads files of checksummed records. Thread: main of the devnode.
// Reading a file ends at the first record that is truncated or corrupt.
//
//   +--------------+--------------+-----------------+
//   | length u32   | crc32 u32    | payload         |  …
//   +--------------+--------------+-----------------+
import { type FileHandle, open, readFile } from 'node:fs/promises'
import { crc32 } from 'node:zlib'

const headBytes = 8

/** Writes records one after the other, in the order of the calls. */
export class RecordFileWriter {
  readonly #file: FileHandle
  #tail: Promise<void> = Promise.resolve()
  #fault: unknown = null
  #pendingBytes = 0

  private constructor(file: FileHandle) {
    this.#file = file
  }

  /** Creates the file, or truncates it. */
  static async create(path: string): Promise<RecordFileWriter> {
    return new RecordFileWriter(await open(path, 'w', 0o600))
  }

  /** The error of the first write that failed; nothing is written after it. */
  get fault(): unknown {
    return this.#fault
  }

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  append(payload: Uint8Array): Promise<void> {
    const head = Buffer.alloc(headBytes)
    head.writeUInt32LE(payload.length, 0)
    head.writeUInt32LE(crc32(payload), 4)
    const record = Buffer.concat([head, payload])
    this.#pendingBytes += record.length
    this.#tail = this.#tail.then(async () => {
      if (this.#fault !== null) return
      try {
        // Unlike `write`, this writes all of it or throws: a nearly full disk takes a piece.
        await this.#file.appendFile(record)
      } catch (error) {
        this.#fault = error
      } finally {
        this.#pendingBytes -= record.length
      }
    })
    return this.#tail
  }

  /** Flushes to the disk itself. Throws the error of an earlier write. */
  async close(): Promise<void> {
    await this.#tail
    try {
      await this.#file.datasync()
    } finally {
      await this.#file.close()
    }
    if (this.#fault !== null) throw this.#fault
  }
}

/** The records of a file, up to the first that is not whole. */
export async function* readRecords(path: string): AsyncIterableIterator<Buffer> {
  const bytes = await readFile(path)
  let at = 0
  while (at + headBytes <= bytes.length) {
    const length = bytes.readUInt32LE(at)
    const end = at + headBytes + length
    if (end > bytes.length) return
    const payload = bytes.subarray(at + headBytes, end)
    if (crc32(payload) !== bytes.readUInt32LE(at + 4)) return
    yield payload
    at = end
  }
}
