// Ring readers and writers for the stress tests, each on a thread of its own.
import { parentPort, workerData } from 'node:worker_threads'
import { crc32 } from 'node:zlib'
import { leasePosition } from '../../../dist/src/base/rings/layout.js'
import { RingReader, RingWriter } from '../../../dist/src/base/rings/ring.js'

const { role, ring, records, batch, isLossless, lease, stallEvery, isAsync } = workerData
const idleMs = 5000

/** Every word of record `seq` follows from `seq`, so a torn record cannot pass for a whole one. */
const wordsOf = (seq) => seq % 17
const wordOf = (seq, word) => Math.imul(seq + word, 0x9e3779b1) | 0

/** Takes over from the previous writer and continues with the next record. */
function write() {
  const writer = RingWriter.resume(ring)
  let sum = 0
  while (writer.count < records) {
    for (let n = 0; n < batch && writer.count < records; n += 1) {
      const seq = writer.count
      const words = wordsOf(seq)
      if (isLossless) while (!writer.fits(words * 4)) writer.waitFits(words * 4, idleMs)
      const at = writer.reserve(seq, words * 4) >> 2
      for (let word = 0; word < words; word += 1) {
        const value = wordOf(seq, word)
        writer.data[at + word] = value
        sum = (sum + value) | 0
      }
      writer.commit()
    }
    writer.publish()
  }
  writer.close()
  return { sum, count: writer.count }
}

/** Reads to the end; `wrong` counts records that are torn, out of order or duplicate. */
async function read() {
  const from = lease === undefined ? 'oldest' : (leasePosition(ring, lease) ?? 'oldest')
  const reader = new RingReader(ring, { from, ...(lease === undefined ? {} : { lease }) })
  const alive = setInterval(() => {}, 1000)
  const state = { read: 0, sum: 0, wrong: 0, batches: 0, first: reader.checkpoint.count }
  let next = state.first
  for (;;) {
    if (reader.poll() === 0) {
      if (reader.isAtEnd) break
      if (isAsync) await reader.waitAsync(idleMs)
      else reader.wait(idleMs)
      continue
    }
    let { read, sum, wrong } = state
    next = reader.checkpoint.count
    while (reader.next()) {
      const seq = reader.tag
      const words = wordsOf(seq)
      if (seq !== next || reader.length !== words * 4) wrong += 1
      const at = reader.offset >> 2
      for (let word = 0; word < words; word += 1) {
        const value = reader.data[at + word]
        if (value !== wordOf(seq, word)) wrong += 1
        sum = (sum + value) | 0
      }
      next += 1
      read += 1
    }
    state.batches += 1
    if (stallEvery && state.batches % stallEvery === 0) stall()
    // Only a confirmed batch counts: before that it may be torn.
    if (reader.commit()) Object.assign(state, { read, sum, wrong })
  }
  clearInterval(alive)
  return { ...state, lost: reader.lost, overruns: reader.overruns, end: reader.checkpoint.count }
}

function stall() {
  const end = performance.now() + 2
  while (performance.now() < end);
}

const lengthOf = (seq) => (Math.imul(seq, 0x9e3779b1) >>> 0) % 400_000

/** Long messages: a checksum as the tag, the payload over several records. */
function writeLong() {
  const writer = RingWriter.resume(ring)
  const payload = new Uint8Array(400_000)
  for (let seq = 0; seq < records; seq += 1) {
    const length = lengthOf(seq)
    for (let at = 0; at < length; at += 997) payload[at] = seq + at
    const message = payload.subarray(0, length)
    if (isLossless) while (!writer.fits(length)) writer.waitFits(length, idleMs)
    writer.write(crc32(message) | 0, message)
    writer.publish()
  }
  writer.close()
  return { count: writer.count }
}

function readLong() {
  const reader = new RingReader(ring, { from: 'oldest', ...(lease === undefined ? {} : { lease }) })
  const state = { read: 0, wrong: 0, bytes: 0 }
  for (;;) {
    // One message at a time, so that a slow checksum loses one message and not the whole ring.
    if (reader.poll(1) === 0) {
      if (reader.isAtEnd) break
      reader.wait(idleMs)
      continue
    }
    let checksum = 0
    let bytes = 0
    let pieces = 0
    while (reader.next()) {
      checksum = crc32(
        reader.bytes.subarray(reader.offset, reader.offset + reader.length),
        checksum,
      )
      bytes += reader.length
      pieces += 1
    }
    const isWhole =
      (checksum | 0) === reader.tag && pieces === Math.max(1, Math.ceil(bytes / 65_536))
    if (!reader.commit()) continue
    state.read += 1
    state.bytes += bytes
    if (!isWhole) state.wrong += 1
  }
  return { ...state, lost: reader.lost, overruns: reader.overruns }
}

const roles = { write, read, writeLong, readLong }
parentPort.postMessage(await roles[role]())
