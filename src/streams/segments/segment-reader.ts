// Reads the stream log's files for replays. A disk may take as long as it wants, and each answer of
// it comes in a later turn of the event loop: files stay open, batches that lie in a row are read
// together, and records of eras are kept: as bytes, since objects that many readers pass would live
// just long enough to be copied by the garbage collector, which stops everyone.
import { type FileHandle, open } from 'node:fs/promises'
import { ReceivedBatch } from '../../chain/solana/received-batch.ts'
import { decodeBatch, decodeEra, type ReadEra } from './segment-format.ts'
import { type EraPlace, segmentFile } from './segment-writer.ts'

/** Records of eras held for readers: a finalized slot refers back by about 32 eras. */
const erasHeld = 64
const filesOpenMax = 16
/** Of batches that are read together; a longer one is read alone. */
const readBytes = 256 * 1024

/** Memory for a read of so many bytes. */
export type ReadMemory = (bytes: number) => Buffer

export class SegmentReader {
  readonly #folder: string
  readonly #files = new Map<number, Promise<FileHandle>>()
  readonly #eras = new Map<string, Promise<HeldEra>>()
  /** Raised when everything is removed: the numbers of files are used again then. */
  #epoch = 0

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Null when it is damaged; rejects with what the file system says. */
  async era(place: EraPlace): Promise<ReadEra | null> {
    return decode(await this.readAhead(place))
  }

  readAhead(place: EraPlace): Promise<HeldEra> {
    const key = `${place.segment} ${place.at}`
    const era = this.#eras.get(key) ?? this.#readEra(place, key)
    keepNewest(this.#eras, key, era, erasHeld)
    return era
  }

  /** A batch of an era and those behind it, as far as one read goes; null when it is damaged. */
  async batches(
    place: EraPlace,
    batch: number,
    memory: ReadMemory,
  ): Promise<readonly ReceivedBatch[] | null> {
    const epoch = this.#epoch
    const held = await this.readAhead(place)
    if (epoch !== this.#epoch) return null
    const places = held.batches ?? decode(held)?.batches
    const wanted = inARow(places?.slice(batch) ?? [])
    if (wanted.length === 0) return null
    const [begin] = wanted[0]!
    const wantedBytes = wanted.reduce((sum, [, length]) => sum + length, 0)
    const bytes = await this.#read(place.segment, begin, wantedBytes, memory)
    const found: ReceivedBatch[] = []
    for (const [at, length] of wanted) {
      const decoded = decodeBatch(bytes.subarray(at - begin, at - begin + length))
      if (decoded === null) break
      found.push(new ReceivedBatch(decoded))
    }
    return found.length === 0 ? null : found
  }

  /** Files up to that one are removed, or all of them. */
  forget(segment = Number.POSITIVE_INFINITY): void {
    if (segment === Number.POSITIVE_INFINITY) this.#epoch++
    this.#eras.clear()
    for (const [number, file] of this.#files)
      if (number <= segment) {
        this.#files.delete(number)
        close(file)
      }
  }

  #readEra({ segment, at, bytes }: EraPlace, key: string): Promise<HeldEra> {
    const reading = this.#read(segment, at, bytes).then((record) => ({ record, batches: null }))
    // A disk that fails is asked again.
    reading.catch(() => this.#eras.delete(key))
    return reading
  }

  async #read(segment: number, at: number, bytes: number, memory: ReadMemory = own) {
    const file = await this.#fileOf(segment)
    const buffer = memory(bytes)
    const { bytesRead } = await file.read(buffer, 0, bytes, at)
    return buffer.subarray(0, bytesRead)
  }

  #fileOf(segment: number): Promise<FileHandle> {
    const opened = this.#files.get(segment) ?? open(segmentFile(this.#folder, segment), 'r')
    opened.catch(() => this.#files.delete(segment))
    const evicted = keepNewest(this.#files, segment, opened, filesOpenMax)
    if (evicted !== undefined) close(evicted)
    return opened
  }
}

const own: ReadMemory = (bytes) => Buffer.allocUnsafeSlow(bytes)

type Places = ReadEra['batches']

interface HeldEra {
  readonly record: Buffer
  /** Null until it is decoded. */
  batches: Places | null
}

function decode(held: HeldEra): ReadEra | null {
  const era = decodeEra(held.record)
  held.batches = era?.batches ?? []
  return era
}

/** The first ones, as far as they lie one behind the other. */
function inARow(places: Places): Places {
  let [count, bytes] = [0, 0]
  for (const [at, length] of places) {
    const isBehind = count === 0 || at === places[0]![0] + bytes
    if (!isBehind || (count > 0 && bytes + length > readBytes)) break
    bytes += length
    count++
  }
  return places.slice(0, count)
}

/** Sets the entry as the newest; returns the oldest where there are too many. */
function keepNewest<K, V>(map: Map<K, V>, key: K, value: V, max: number): V | undefined {
  map.delete(key)
  map.set(key, value)
  if (map.size <= max) return undefined
  const [oldest, evicted] = map.entries().next().value!
  map.delete(oldest)
  return evicted
}

/** After the reads that are under way. */
function close(file: Promise<FileHandle>): void {
  file.then((opened) => opened.close()).catch(() => {})
}
