// Readers that stall: one with a consumer continues from what is kept, at its own pace, and is told
// so; any number of them takes a bounded amount of memory. Without a consumer it is ended.
import { hash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { GrpcStatus, GrpcStream } from '../../src/base/transport/grpc-stream.ts'
import { decodeKey, encodeBase58 } from '../../src/chain/solana/base58.ts'
import { FanOut } from '../../src/streams/geyser/fan-out.ts'
import { declareGrpcMeters, type GrpcMeters } from '../../src/streams/geyser/meters.ts'
import { Subscriber } from '../../src/streams/geyser/subscriber.ts'
import { limits } from '../testkit/filter-limits.ts'
import { everything } from '../testkit/geyser-everything.ts'
import { RelayStage } from '../testkit/geyser-relay.ts'
import { codec, GrpcStage } from '../testkit/grpc-stage.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

const mebibyte = 1024 * 1024
const stalledReaders = 200
let folder: string
let node: GrpcStage
let relay: RelayStage
let source: SyntheticSolana
let fanOut: FanOut
let meters: GrpcMeters

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'grpc-behind-'))
  source = new SyntheticSolana({ finalizedAfter: 6, transactionsPerSlot: 12, dataBytes: 40_000 })
  node = await GrpcStage.open()
  relay = await RelayStage.before(node, { replaySlots: 4, logFolder: folder })
  meters = declareGrpcMeters(new Meters())
  fanOut = new FanOut(relay.road.hub, meters)
})

afterEach(async () => {
  fanOut.stop()
  await relay.close()
  await node.close()
  rmSync(folder, { recursive: true })
})

/** A stream whose client reads or does not. */
class Reader implements GrpcStream {
  readonly encoding = null
  readonly messages: string[] = []
  readonly behind: { isBehind: boolean; slot: number }[] = []
  /** Accounts that came, as `slot key`, and the slots from which changed keys count. */
  readonly accounts: string[] = []
  readonly changedFrom: number[] = []
  bytes = 0
  #part = Buffer.alloc(0)
  status: GrpcStatus | null = null
  isStalled: boolean
  readonly #consumer: string | undefined
  readonly subscriber: Subscriber

  constructor(
    consumer: string | undefined,
    isStalled: boolean,
    commitment: number,
    backlogBytesMax = 16 * mebibyte,
    filters: object = everything,
  ) {
    this.#consumer = consumer
    this.isStalled = isStalled
    const { hub, streamLog, published } = relay.road
    const held = { position: null, commit: async () => {}, close() {} }
    this.subscriber = new Subscriber(this, {
      ...{ hub, streamLog, published, fanOut, codec, meters },
      limits: () => limits,
      consumers: { open: async () => held },
      backlogBytesMax,
      clock: systemClock,
      meter() {},
      charge: () => null,
      ended() {},
    })
    this.ask({ ...filters, commitment })
  }

  ask(request: object): void {
    this.subscriber.message(Buffer.from(codec.encode('geyser.SubscribeRequest', request)))
  }

  header(name: string): string | undefined {
    return name === 'consumer' ? this.#consumer : undefined
  }

  /** As much as http2 takes of a client that does not read. */
  get unsentBytes(): number {
    return this.isStalled ? 256 * 1024 : 0
  }

  write(frames: Buffer, sent?: () => void): boolean {
    this.#part = Buffer.concat([this.#part, frames])
    sent?.()
    for (;;) {
      const end = this.#part.length < 5 ? Number.NaN : 5 + this.#part.readUInt32BE(1)
      if (!(end <= this.#part.length)) return true
      this.#take(this.#part.subarray(5, end))
      this.#part = this.#part.subarray(end)
    }
  }

  #take(message: Buffer): void {
    this.bytes += message.length
    // Reason for the assertion: a server sends what can be read.
    const told = codec.decode<Told>('geyser.SubscribeUpdate', message)!
    const { behind, account, keys } = told
    if (behind) this.behind.push({ isBehind: behind.isBehind, slot: Number(behind.slot) })
    else this.messages.push(hash('sha1', message))
    if (account) this.accounts.push(`${account.slot} ${encodeBase58(account.account.pubkey)}`)
    if (keys) this.changedFrom.push(Number(keys.fromSlot))
  }

  end(status: GrpcStatus): void {
    this.status ??= status
  }
}

interface Told {
  readonly behind?: { readonly isBehind: boolean; readonly slot: unknown }
  readonly account?: { readonly slot: unknown; readonly account: { readonly pubkey: Uint8Array } }
  readonly keys?: { readonly fromSlot: unknown }
}

async function publish(slots: number): Promise<void> {
  for (let count = 0; count < slots; count++) {
    const updates = source.next()
    node.publish(updates)
    await relay.caughtUp(updates)
  }
  // A look at the end of the turn.
  await new Promise((resolve) => setTimeout(resolve))
}

describe('a reader that stalls', () => {
  it.each([0, 1])('continues without a seam when it has a consumer, at %i', async (commitment) => {
    await publish(1)
    const quick = new Reader(undefined, false, commitment)
    const slow = new Reader('a', true, commitment)
    await publish(12)
    expect(slow.status).toBeNull()
    expect(relay.road.hub.oldestSlot).toBeGreaterThan(1_007)
    slow.isStalled = false
    slow.subscriber.drained()
    await until(() => slow.behind.length === 2, 'live again')
    // It stalls once more, and reads while the chain goes on.
    slow.isStalled = true
    await publish(8)
    slow.isStalled = false
    slow.subscriber.drained()
    await publish(3)
    // That it is live is told after the last message.
    const isLive = () => slow.behind.length >= 4
    await until(() => isLive() && slow.messages.length >= quick.messages.length, 'everything')
    expect(slow.messages).toEqual(quick.messages)
    expect(slow.behind.map(({ isBehind }) => isBehind)).toEqual([true, false, true, false])
    expect(slow.behind[0]!.slot).toBeGreaterThan(1_000)
  })

  it('changes its keys when it has a consumer: every slot is matched by one set', async () => {
    const keys = source.keys.map((key) => encodeBase58(key))
    const [old, fresh] = [keys.slice(0, 20), keys.slice(20)]
    const filterOf = (account: string[]) => ({ accounts: { a: { account } } })
    const delta = (add: string[], remove: string[]) => {
      const bytes = (list: string[]) => list.map((key) => decodeKey(key))
      return { changes: [{ filter: 'a', add: bytes(add), remove: bytes(remove) }] }
    }
    await publish(2)
    const all = new Reader(undefined, false, 0)
    const slow = new Reader('a', true, 0, 16 * mebibyte, filterOf(old))
    // With equal filters, which stay as they are.
    const alike = new Reader(undefined, false, 0, 16 * mebibyte, filterOf(old))
    await publish(9)
    // Nothing is replayed yet: they count above what was sent before it fell behind.
    slow.ask({ keys: { id: 1, ...delta(fresh, old) } })
    slow.ask({ keys: { id: 2, ...delta(old.slice(0, 5), []) } })
    await publish(3)
    slow.isStalled = false
    slow.subscriber.drained()
    await publish(2)
    await until(() => slow.behind.length === 2, 'live again')
    const [from, again] = slow.changedFrom
    expect(from).toBeGreaterThan(1_002)
    expect(again).toBe(from)
    const wanted = (slot: number, key: string) =>
      slot < from! ? old.includes(key) : fresh.includes(key) || old.indexOf(key) < 5
    const due = (takes: typeof wanted) =>
      all.accounts.filter((one) => {
        const [slot, key] = one.split(' ')
        return takes(Number(slot), key!)
      })
    expect(slow.accounts).toEqual(due(wanted))
    expect(alike.accounts).toEqual(due((_, key) => old.includes(key)))
  })

  it('is ended when it has none', async () => {
    await publish(1)
    const slow = new Reader(undefined, true, 0, 2 * mebibyte)
    await publish(8)
    expect(slow.status?.details).toMatch(/^lagged: /)
    expect(slow.behind).toEqual([])
  })
})

it('any number of them takes a bounded amount of memory', async () => {
  await publish(1)
  const quick = new Reader(undefined, false, 0)
  await publish(1)
  const slotBytes = quick.bytes
  const readers = Array.from({ length: stalledReaders }, (_, at) => new Reader(`c${at}`, true, 0))
  await publish(8)
  const waiting = () => readers.map(({ subscriber }) => subscriber.backlogBytes)
  const before = waiting()
  expect(Math.max(...before)).toBeLessThan(mebibyte + 256 * 1024 + 2 * slotBytes)
  const { hub } = relay.road
  const kept = hub.keptBytes
  await publish(8)
  expect(waiting()).toEqual(before)
  expect(hub.keptBytes).toBeLessThan(2 * kept)
  // They are in no group: nothing is matched or framed for them.
  expect(fanOut.groups).toBe(1)
  expect(readers.filter(({ status }) => status !== null)).toEqual([])
  for (const reader of readers.slice(0, 3)) {
    reader.isStalled = false
    reader.subscriber.drained()
    await until(() => reader.behind.length === 2, 'live again')
  }
})
