// Capture files: written records are read back, broken ones are skipped.
import { expect, test } from 'vitest'
import { pcapHeader, pcapRecord, readPcap } from '../../../../src/base/transport/pcap.ts'
import { randomBytes } from '../../../testkit/shreds.ts'

const payloads = [Uint8Array.of(), Uint8Array.of(1, 2, 3), new Uint8Array(1228).fill(9)]
const times = [0, 1_700_000_000_123.25, 1_700_000_001_000.5]
const records = payloads.map((payload, place) =>
  pcapRecord({ timeMs: times[place]!, payload }, 20_000),
)
const file = Buffer.concat([pcapHeader(), ...records])

test('a capture that we write has its datagrams and their times', () => {
  const read = readPcap(file)!
  expect(read.map(({ payload }) => Buffer.from(payload))).toEqual(
    payloads.map((p) => Buffer.from(p)),
  )
  expect(read.map(({ timeMs }) => timeMs)).toEqual(times)
})

test('a truncated file yields the records before the cut', () => {
  for (let length = 0; length < file.length; length += 1) {
    const read = readPcap(file.subarray(0, length))
    if (length < 24) expect(read).toBe(null)
    else expect(read!.length).toBeLessThan(payloads.length)
  }
})

test('other files and other protocols are refused', () => {
  expect(readPcap(new Uint8Array(100))).toBe(null)
  const tcp = Buffer.from(file)
  tcp[24 + 16 + 14 + 9] = 6
  expect(readPcap(tcp)!.length).toBe(2)
})

test('random bytes after a valid header never throw', () => {
  for (let seed = 1; seed < 300; seed += 1) {
    const noise = randomBytes(seed * 7, seed)
    // Lengths that look plausible, so that the frames themselves are read.
    for (let at = 8; at + 4 < noise.length; at += 60)
      new DataView(noise.buffer).setUint32(at, 44, true)
    expect(readPcap(Buffer.concat([pcapHeader(), noise]))).not.toBe(null)
  }
})
