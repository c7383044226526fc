// A recording of geyser batches and calls, replayed by this build and by one with a fault.
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { encodeRecording, openingOf, recordingKind } from '../../../../src/base/recording-file.ts'
import { replayRecording, sealRecording } from '../../../../src/operator/record/replay.ts'
import { loadCodec } from '../../../../src/streams/geyser/codec.ts'
import { FrameBatch } from '../../../../src/streams/geyser/frame.ts'
import { SlotNotifications } from '../../../../src/streams/pubsub/block-notifications.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'
import { voidChain } from '../../../testkit/void-banks.ts'

const startedMs = 1_700_000_000_000
const versions = { api: '4.0.0', node: '4.0.0' }
let folder: string
let path: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'replay-'))
  path = join(folder, 'a.rec')
  writeFileSync(path, openingOf())
  append('meta', { release: '1.0.0', startedMs, shreds: null })
})

afterEach(() => {
  vi.restoreAllMocks()
  rmSync(folder, { recursive: true })
})

function append(
  kind: keyof typeof recordingKind,
  header: Readonly<Record<string, unknown>>,
  ...body: Uint8Array[]
): void {
  appendFileSync(path, Buffer.concat(encodeRecording(recordingKind[kind], header, body)))
}

/** Updates of a set's stream, some in each batch. */
function stream(updates: readonly Parameters<typeof messageOf>[0][], perBatch = 7): void {
  const geyser = { set: 'default', stream: 0 }
  append('geyser', { ...geyser, op: 'opened', fromSlot: null, nodeVersion: '4.0.0' })
  const sent = updates.filter(({ kind }) => kind !== 'block' && kind !== 'retraction')
  for (let at = 0; at < sent.length; at += perBatch) {
    const messages = sent.slice(at, at + perBatch).map((update) => messageOf(update))
    const { bytes, table, messageBytes } = batchFrom(messages, startedMs)
    const header = { ...geyser, op: 'batch', messageBytes, tableBytes: table.byteLength }
    append('geyser', { ...header, atMs: startedMs + at }, new Uint8Array(table.buffer), bytes)
  }
}

function rpcCall(request: object, answer: string, about: object = {}): void {
  const texts = [Buffer.from(JSON.stringify(request)), Buffer.from(answer)] as const
  const header = {
    ...{ product: 'rpc', method: 'POST /', set: 'default', connection: 0, versions },
    ...{ isFromStream: true, requestBytes: texts[0].length, answerBytes: texts[1].length },
  }
  append('call', { atMs: startedMs, ...header, ...about }, ...texts)
}

function someSlots(slots = 8) {
  const chain = new SyntheticSolana()
  return Array.from({ length: slots }, () => chain.next()).flat()
}

async function seal(): Promise<number> {
  const replayed = await replayRecording(path, '1.0.0')
  expect(replayed.frames).toBeNull()
  sealRecording(path, replayed)
  return replayed.results.frames
}

it('makes the same frames of one recording each time, at every commitment and topic', async () => {
  stream([...voidChain(3).sent])
  const made = await seal()
  const { frames, sealedBy, results } = await replayRecording(path, '1.0.1')
  const none = { differing: 0, differences: [], notCompared: [] }
  expect(frames).toEqual({ compared: made, identical: made, ...none })
  expect(sealedBy).toBe('1.0.0')
  const names = [...results.streams.keys()].join('\n')
  for (const name of ['grpc processed', 'grpc confirmed', 'grpc finalized', 'grpc retractions'])
    expect(names).toContain(`default: ${name}`)
  for (const topic of ['slot', 'root', 'slotsUpdates', 'logs', 'transaction', 'block'])
    expect(names).toContain(`default: pubsub ${topic}`)
})

it('finds a field of one frame that a build encodes differently', async () => {
  stream(someSlots())
  await seal()
  const append = FrameBatch.prototype.append
  let count = 0
  vi.spyOn(FrameBatch.prototype, 'append').mockImplementation(function (
    this: FrameBatch,
    ...given
  ) {
    const [tag, prefix, body, suffix] = given
    const other = Buffer.from(body)
    if (++count === 40) other[other.length - 1]! ^= 1
    append.call(this, tag, prefix, other, suffix)
  })
  const { frames } = await replayRecording(path, '1.0.1')
  expect(frames).toMatchObject({ differing: 2 })
  const [missing, unexpected] = frames!.differences
  expect(missing).toMatchObject({ kind: 'missing', frame: unexpected!.frame })
  expect(unexpected).toMatchObject({ kind: 'unexpected', slot: expect.any(Number) })
  expect(unexpected!.stream).toContain('grpc')
})

it('finds a notification that a build leaves out', async () => {
  stream(someSlots())
  await seal()
  const take = SlotNotifications.prototype.take
  let count = 0
  vi.spyOn(SlotNotifications.prototype, 'take').mockImplementation(function (
    this: SlotNotifications,
    update,
  ) {
    if (++count < 10) take.call(this, update)
  })
  const { frames } = await replayRecording(path, '1.0.1')
  expect(frames!.differing).toBeGreaterThan(0)
  expect(frames!.differences.every(({ stream: name }) => name.includes('pubsub'))).toBe(true)
})

it('compares answers from the stream with those that customers got, and counts the others', async () => {
  const updates = someSlots()
  stream(updates)
  const call = (method: string, params: unknown[] = []) => ({
    jsonrpc: '2.0',
    id: 7,
    method,
    params,
  })
  const processed = call('getSlot', [{ commitment: 'processed' }])
  const slot = Math.max(...updates.map((update) => update.slot))
  rpcCall(processed, `{"jsonrpc":"2.0","result":${slot},"id":7}\n`)
  rpcCall(processed, `{"jsonrpc":"2.0","result":${slot + 1},"id":7}\n`)
  rpcCall(call('getBalance', ['11111111111111111111111111111111']), '{}')
  rpcCall(processed, '{}', { isFromStream: false })
  rpcCall(processed, '{}', { product: 'tpu' })
  rpcCall(processed, '', { requestDigest: 'ab', answerDigest: 'cd' })
  const { answers } = await replayRecording(path, '1.0.1')
  expect(answers).toMatchObject({ calls: 6, compared: 2, differing: 1 })
  expect(answers.differences).toMatchObject([
    { call: 1, method: 'getSlot', expected: expect.stringContaining(String(slot + 1)) },
  ])
  expect(answers.notCompared).toEqual({
    'of state from before the recording': 1,
    'answered by a node': 1,
    'calls of tpu': 1,
    'recorded as digests': 1,
  })
})

it('replays the subscriptions of customers where they made them', async () => {
  const [first, second] = [someSlots(4), someSlots(8)]
  stream(first)
  const subscribe = { jsonrpc: '2.0', id: 1, method: 'slotSubscribe' }
  const socket = { product: 'websocket', connection: 5, isFromStream: false }
  rpcCall(subscribe, '{}', socket)
  rpcCall({ ...subscribe, method: 'getVersion' }, '{}', socket)
  stream(second.slice(first.length))
  const made = await seal()
  const { frames, results, answers } = await replayRecording(path, '1.0.0')
  expect(frames).toMatchObject({ identical: made, differing: 0 })
  const own = results.streams.get('default: pubsub customer 5')!.digests.length
  const all = results.streams.get('default: pubsub slot')!.digests.length
  expect(own).toBeGreaterThan(0)
  expect(own).toBeLessThan(all)
  expect(answers).toMatchObject({ calls: 2, compared: 0 })
})

it('makes all frames also on a machine that is slow', async () => {
  const codec = loadCodec()
  stream(someSlots(2))
  for (let connection = 1; connection <= 40; connection++) {
    const all = { [`of ${connection}`]: {} }
    const asked = { slots: all, blocksMeta: all, accounts: all }
    const request = Buffer.from(codec.encode('geyser.SubscribeRequest', asked))
    const about = { product: 'grpc', method: '/geyser.Geyser/Subscribe', connection }
    const sizes = { requestBytes: request.length, answerBytes: 0 }
    append('call', { atMs: startedMs, set: 'default', versions, ...about, ...sizes }, request)
  }
  stream(someSlots(3).slice(-20))
  const made = (await replayRecording(path, '1.0.0')).results.frames
  let nowMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs++)
  expect((await replayRecording(path, '1.0.0')).results.frames).toBe(made)
})

it('seals what is whole of a recording that was cut, and names the rest', async () => {
  stream(someSlots())
  const whole = readFileSync(path)
  writeFileSync(path, whole.subarray(0, whole.length - 100))
  const cut = await replayRecording(path, '1.0.0')
  expect(cut.end).toBeNull()
  expect(cut.tornBytes).toBeGreaterThan(0)
  sealRecording(path, cut)
  const replayed = await replayRecording(path, '1.0.0')
  expect(replayed).toMatchObject({ tornBytes: 0, frames: { differing: 0 } })
  expect(replayed.frames!.compared).toBe(cut.results.frames)
})
