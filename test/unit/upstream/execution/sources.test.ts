import { describe, expect, test } from 'vitest'
import {
  EventType,
  recordError,
  storageAccess,
  txnLog,
} from '../../../../src/chain/evm/event-payload.ts'
import { descriptor } from '../../../../src/chain/evm/event-ring.ts'
import { writeU16, writeU32, writeU64 } from '../../../../src/chain/evm/words.ts'
import { executionSourceFields } from '../../../../src/upstream/execution/config.ts'
import { openExecutionSource } from '../../../../src/upstream/execution/open.ts'
import { deliver, TimerPacer } from '../../../../src/upstream/execution/playback.ts'
import { SeenEvents } from '../../../testkit/execution-sink.ts'
import { VirtualPacer } from '../../../testkit/virtual-pacer.ts'

function head(type: number, size: number, seqno = 7): Uint8Array {
  const bytes = new Uint8Array(descriptor.bytes)
  writeU64(bytes, descriptor.seqno, seqno)
  writeU16(bytes, descriptor.type, type)
  writeU32(bytes, descriptor.payloadSize, size)
  return bytes
}

describe('event validation', () => {
  test('delivers a well-formed event', () => {
    const seen = new SeenEvents()
    deliver(seen, head(EventType.StorageAccess, 124), new Uint8Array(storageAccess.size))
    deliver(seen, head(EventType.TxnEnd, 0, 8), new Uint8Array(0))
    expect([seen.total, seen.gaps]).toEqual([2, []])
  })

  test('reports a malformed, unknown or failed record as a gap and does not deliver it', () => {
    const seen = new SeenEvents()
    const lying = new Uint8Array(txnLog.size)
    writeU32(lying, txnLog.dataLength, 4_000_000_000)
    deliver(seen, head(EventType.TxnLog, lying.length, 1), lying)
    deliver(seen, head(EventType.StorageAccess, 12, 2), new Uint8Array(12))
    deliver(seen, head(99, 0, 3), new Uint8Array(0))
    deliver(seen, head(EventType.RecordError, 16, 4), new Uint8Array(recordError.size))
    expect(seen.total).toBe(0)
    expect(seen.gaps.map(({ from, to }) => [from, to])).toEqual([
      [1, 1],
      [2, 2],
      [3, 3],
      [4, 4],
    ])
  })
})

describe('pacing', () => {
  test('a stopped pacer returns at once, however long the wait', async () => {
    const pacer = new TimerPacer()
    const waiting = pacer.until(performance.now() + 3_600_000)
    pacer.stop()
    await waiting
    await pacer.until(performance.now() + 3_600_000)
    expect(pacer.isStopped).toBe(true)
  })

  test('a wait never ends early', async () => {
    const pacer = new TimerPacer()
    for (const waitMs of [-5, 0, 0.3, 3]) {
      const untilMs = performance.now() + waitMs
      await pacer.until(untilMs)
      expect(performance.now()).toBeGreaterThanOrEqual(untilMs)
    }
  })

  test('a virtual pacer advances its clock to the wait, never back', async () => {
    const pacer = new VirtualPacer(1000)
    await pacer.until(5000)
    await pacer.until(10)
    expect(pacer.clock.nowMs()).toBe(5000)
  })
})

describe('opening a source', () => {
  const generator = {
    seed: executionSourceFields.generator.fields.seed.initial,
    tps: executionSourceFields.generator.fields.tps.initial,
    skew: executionSourceFields.generator.fields.skew.initial,
    blockMs: executionSourceFields.generator.fields.blockMs.initial,
  }
  const section = { path: '/nowhere', speed: 'full', loop: false, generator } as const

  test('the generator runs on the real clock until it is stopped', async () => {
    const source = openExecutionSource({ ...section, source: 'embedded' })
    const seen = new SeenEvents()
    seen.onEvent = ({ type }) => {
      if (type === EventType.BlockEnd) source.stop()
    }
    await source.run(seen)
    // One block number in 500 has a rejected proposal before its own, and the clock chooses it.
    expect(seen.count(EventType.BlockStart) - seen.count(EventType.BlockReject)).toBe(1)
    expect(seen.misshapen + seen.jumps).toBe(0)
  })

  test('a missing snapshot is a fault, a missing ring is waited for', async () => {
    const snapshot = openExecutionSource({ ...section, source: 'snapshot' })
    await expect(snapshot.run(new SeenEvents())).rejects.toThrow('cannot open')
    const ring = openExecutionSource({ ...section, source: 'ring' })
    const running = ring.run(new SeenEvents())
    ring.stop()
    await running
  })
})
