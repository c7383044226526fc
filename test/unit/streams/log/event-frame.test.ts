// What a row of the shared event log may contain: a frame of this version, one of a later version,
// or anything at all.
import fc from 'fast-check'
import { unpack } from 'msgpackr'
import { describe, expect, test } from 'vitest'
import { jsonToMsgpack } from '../../../../src/streams/log/encoded.ts'
import { EventLog } from '../../../../src/streams/log/log.ts'
import { decodeFrame, encodeFrame } from '../../../../src/streams/log/shared-events.ts'
import { contentionOf, HandClock } from '../../../testkit/fake-execution.ts'

const row = (head: unknown, payload: string) =>
  Buffer.from(`${typeof head === 'string' ? head : JSON.stringify(head)}\n${payload}`)
const decode = (head: unknown, payload: string) => decodeFrame(row(head, payload), 5)

const block = { blockHash: '0x1', ethHash: '0x2', txCount: 3, gasUsed: 4, startedNs: 5n }
const facts = { blockNumber: 7, atNs: 1_756_499_174_000_000_000n, key: '0xa/Voted', block }
const move = { block_hash: '0xa', block_number: 7, to_stage: 'Voted', block_age_ms: 400.5 }
const access = { key: '0x1', count: 2, error: 0 }
const payloads = {
  TPS: 400,
  ContentionData: contentionOf(7),
  TopAccesses: { account: [access], storage: [{ ...access, key: ['0x1', '0x2'] }] },
  Lifecycle: move,
  Gap: { from: 1, to: 2 },
} as const

describe('a frame', () => {
  test.each(Object.entries(payloads))('%s is read as it was written', (kind, payload) => {
    const bytes = Buffer.from(JSON.stringify(payload))
    for (const given of [facts, null]) {
      const frame = { kind: kind as keyof typeof payloads, payload: bytes, facts: given }
      expect(decodeFrame(encodeFrame(frame), 5)).toEqual({ ...frame, sinceMs: 5 })
    }
  })

  test('may have fields that a later version added', () => {
    const head = { kind: 'Lifecycle', facts: { block: 7, at: '1', shard: 2 }, origin: 'x' }
    const decoded = decode(head, JSON.stringify({ ...move, shard: { id: 1 } }))
    expect(decoded).toMatchObject({ kind: 'Lifecycle', facts: { blockNumber: 7, atNs: 1n } })
  })

  test('of a kind that a later version added has its number and nothing to send', () => {
    const decoded = decode({ kind: 'Reorg', facts: { chain: 1 } }, 'not even JSON')
    expect(decoded).toMatchObject({ kind: 'unknown', facts: null })
    expect(String(decoded?.payload)).toBe('null')
  })
})

test.each([
  ['a number without an end, hidden by a second', '{"block_number":1e999,'],
  ['too many levels', `{"x":${'['.repeat(1e5)}${']'.repeat(1e5)},`],
  ['too many elements', `{"x":[${'0,'.repeat(1e5)}0],`],
])('with %s is sent as JSON, and is a Gap in msgpack', (_, before) => {
  const frame = decode({ kind: 'Lifecycle' }, before + JSON.stringify(move).slice(1))!
  const shared = new EventLog({ reserve: () => null, clock: new HandClock(), isShared: true })
  shared.accept(1, frame)
  const stored = shared.at(1)!
  expect(stored.kind).toBe('Lifecycle')
  expect(unpack(shared.encoded(stored, 'msgpack'))).toEqual({ seq: 1, Gap: { from: 0, to: 0 } })
  // What this process numbers itself comes from its own encoders.
  const own = new EventLog({ reserve: () => 0, clock: new HandClock() })
  own.append('Lifecycle', frame.payload)
  expect(() => own.encoded(own.at(own.newestSeq)!, 'msgpack')).toThrow()
})

describe('a row is no frame', () => {
  test.each([
    ['with facts that are not whole', { kind: 'TPS', facts: { block: 1 } }, '400'],
    ['with a time that is no number', { kind: 'TPS', facts: { block: 1, at: 'soon' } }, '400'],
    ['with a time beyond 63 bits', { kind: 'TPS', facts: { block: 1, at: '9'.repeat(19) } }, '4'],
    ['with facts that are null', { kind: 'TPS', facts: null }, '400'],
    ['with half a block', { kind: 'TPS', facts: { block: 1, at: '1', of: { txCount: 1 } } }, '4'],
    ['with a head that is not JSON', '{"kind":"TPS"', '400'],
    ['with a head that is null', 'null', '400'],
    ['without a kind', {}, '400'],
    ['with a kind that is no name', { kind: 'a"b' }, '400'],
    ['with a payload that is not JSON', { kind: 'TPS' }, '400}'],
    ['without a payload', { kind: 'TPS' }, ''],
    ['with the payload of another kind', { kind: 'TPS' }, '{}'],
    ['with a number that JSON cannot say', { kind: 'Gap' }, '{"from":1,"to":1e999}'],
    ['with too deep a payload', { kind: 'Gap' }, `{"from":1,"to":2,"x":${'['.repeat(1e5)}`],
    ['with a list that is none', { kind: 'TopAccesses' }, '{"account":{},"storage":[]}'],
    ['with elements of another kind', { kind: 'TopAccesses' }, '{"account":[1],"storage":[]}'],
    ['without the lists of its kind', { kind: 'ContentionData' }, '{"block_number":1}'],
    ['without the fields of its kind', { kind: 'Lifecycle' }, '{"block_number":1}'],
  ])('%s', (_, head, payload) => {
    expect(decode(head, payload)).toBeNull()
  })

  test('with bytes that are not UTF-8, or no line at all', () => {
    const text = Buffer.from('{"from":1,"to":2,"x":"\xff"}', 'latin1')
    expect(decodeFrame(Buffer.concat([Buffer.from('{"kind":"Gap"}\n'), text]), 5)).toBeNull()
    expect(decodeFrame(Buffer.from('{"kind":"Gap"}'), 5)).toBeNull()
    expect(decodeFrame(Buffer.alloc(0), 5)).toBeNull()
  })

  test('whatever it contains: nothing is thrown, and what is taken can be sent', () => {
    const text = fc.oneof(
      fc.json(),
      fc.string(),
      fc.constantFrom(...Object.values(payloads).map((p) => JSON.stringify(p))),
    )
    const head = fc.oneof(fc.json(), fc.record({ kind: fc.constantFrom(...Object.keys(payloads)) }))
    fc.assert(
      fc.property(head, text, (some, payload) => {
        const decoded = decode(some, payload)
        if (decoded !== null) jsonToMsgpack(decoded.payload)
      }),
      { numRuns: 2_000, seed: 3 },
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        decodeFrame(Buffer.from(bytes), 5)
      }),
      { seed: 3 },
    )
  })
})
