// Mints for jsonParsed token accounts: read once for all who wait, in order, within bounds.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import type { AccountData } from '../../../../src/chain/solana/json-parsed/parsed.ts'
import { programs, sysvarOwner, sysvars } from '../../../../src/chain/solana/programs.ts'
import {
  accountUpdate,
  retractionUpdate,
  slotUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import { slotStatus } from '../../../../src/chain/solana/updates.ts'
import { Subscriptions } from '../../../../src/products/websocket/handle.ts'
import { publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { declareSubscriptionMeters } from '../../../../src/streams/pubsub/notifier.ts'
import { budgetOn, looseSession } from '../../../testkit/loose-session.ts'
import { idleChain } from '../../../testkit/pubsub-chain.ts'

const key = (fill: number) => new Uint8Array(32).fill(fill)
const holder = key(7)
const at = { slot: 1, createdAtMs: 0 }

function mintOf(decimals: number): AccountData {
  const data = Buffer.alloc(82)
  data[44] = decimals
  data[45] = 1
  return { owner: programs.token, data }
}

function tokenAccount(mint: Uint8Array, amount: bigint): Buffer {
  const data = Buffer.alloc(165)
  data.set(mint)
  data.writeBigUInt64LE(amount, 64)
  data[108] = 1
  return data
}

class Stage {
  /** Keys of each read, and how it ends. */
  readonly reads: { keys: string[]; resolve(found: (AccountData | null)[]): void }[] = []
  readonly published: { topic: string; value: { data: unknown } }[] = []
  readonly chain = idleChain({
    readAccounts: (keys) =>
      new Promise((resolve) =>
        this.reads.push({ keys: keys.map((one) => encodeBase58(one)), resolve }),
      ),
  })
  readonly #subscriptions = new Subscriptions({
    meters: declareSubscriptionMeters(new Meters()),
    clock: { nowMs: Date.now, monotonicMs: () => performance.now() },
    log: silentLog,
  })
  readonly session = looseSession(
    budgetOn({ notificationBytesPerSecond: 0 }, systemClock),
    this.#subscriptions.engineOf(this.chain),
  )

  constructor() {
    this.#subscriptions.usePublisher((topic, message) => {
      const { value } = JSON.parse(Buffer.from(message).toString()).params.result
      this.published.push({ topic, value })
    })
  }

  subscribe(account: Uint8Array, encoding = 'jsonParsed', more = {}): string {
    const params = [encodeBase58(account), { encoding, commitment: 'processed', ...more }]
    const call = { method: '', params, paramsText: '', id: '1' }
    const answer = this.#subscriptions.methods.accountSubscribe!(call, this.session)
    return (answer as { text: string }).text
  }

  publish(pubkey: Uint8Array, data: Uint8Array, owner: Uint8Array = programs.token): void {
    const content = {
      pubkey,
      lamports: 1n,
      owner,
      executable: false,
      rentEpoch: 0n,
      data,
      writeVersion: 1n,
      txnSignature: null,
    }
    publishUpdate(this.chain.hub, accountUpdate(at, content))
    // Accounts are notified when their slot is complete.
    const complete = slotUpdate(at, { parent: null, status: slotStatus.processed })
    publishUpdate(this.chain.hub, complete)
  }

  /** Amounts of one feed as they were sent; base64 is ''. */
  amounts(topic: string): string[] {
    return this.published
      .filter((one) => one.topic === topic)
      .map(({ value: { data } }) =>
        Array.isArray(data)
          ? ''
          : // biome-ignore lint/suspicious/noExplicitAny: a test looks at whatever came.
            (data as any).parsed.info.tokenAmount.uiAmountString,
      )
  }

  stop(): void {
    this.#subscriptions.stop()
  }
}

let stage: Stage
beforeEach(() => {
  vi.useFakeTimers()
  stage = new Stage()
})
afterEach(() => {
  stage.stop()
  vi.useRealTimers()
})

/** Lets promises and immediates run. */
const turn = () => vi.advanceTimersByTimeAsync(1)

describe('a jsonParsed token account whose mint is unknown', () => {
  it('is not notified any more when what waits is void', async () => {
    const parsed = stage.subscribe(holder, 'jsonParsed', { retractions: true })
    stage.publish(holder, tokenAccount(key(1), 100n))
    await turn()
    const void1 = retractionUpdate(at, { bank: 1, reason: 'handover', restated: [] })
    publishUpdate(stage.chain.hub, void1)
    stage.publish(holder, tokenAccount(key(1), 200n))
    await turn()
    stage.reads[0]!.resolve([mintOf(2)])
    await turn()
    // Nothing was sent of the first bank, so nothing is taken back.
    expect(stage.amounts(parsed)).toEqual(['2'])
  })

  it('waits for one read, in order, and other encodings do not wait', async () => {
    const [parsed, plain] = [stage.subscribe(holder), stage.subscribe(holder, 'base64')]
    for (const amount of [100n, 200n]) stage.publish(holder, tokenAccount(key(1), amount))
    await turn()
    stage.publish(holder, tokenAccount(key(1), 300n))
    stage.publish(holder, tokenAccount(key(1), 400n))
    await turn()
    expect(stage.reads.map(({ keys }) => keys)).toEqual([[encodeBase58(key(1))]])
    expect([stage.amounts(parsed), stage.amounts(plain)]).toEqual([[], ['', '', '', '']])
    stage.reads[0]!.resolve([mintOf(2)])
    await turn()
    expect(stage.amounts(parsed)).toEqual(['1', '2', '3', '4'])
    stage.publish(holder, tokenAccount(key(1), 500n))
    expect(stage.amounts(parsed).at(-1)).toBe('5')
    expect(stage.reads).toHaveLength(1)
  })

  it('keeps the order of a feed when a later mint is known first', async () => {
    const id = stage.subscribe(holder)
    stage.publish(holder, tokenAccount(key(1), 100n))
    await turn()
    stage.publish(holder, tokenAccount(key(2), 2_000n))
    await turn()
    stage.reads[1]!.resolve([mintOf(3)])
    await turn()
    expect(stage.amounts(id)).toEqual([])
    stage.reads[0]!.resolve([mintOf(2)])
    await turn()
    expect(stage.amounts(id)).toEqual(['1', '2'])
  })

  it('is read in batches of at most 100 keys', async () => {
    const holders = Array.from({ length: 150 }, (_, at) => key(at + 1))
    for (const one of holders) stage.subscribe(one)
    for (const [at, one] of holders.entries()) {
      const mint = new Uint8Array(32).fill(3)
      mint[0] = at
      stage.publish(one, tokenAccount(mint, 1n))
    }
    await turn()
    expect(stage.reads.map(({ keys }) => keys.length)).toEqual([100, 50])
  })

  it('is sent as base64 after 2 s without an answer, and the mint is read again after 5 s', async () => {
    const id = stage.subscribe(holder)
    stage.publish(holder, tokenAccount(key(1), 100n))
    await vi.advanceTimersByTimeAsync(1_900)
    expect(stage.amounts(id)).toEqual([])
    await vi.advanceTimersByTimeAsync(200)
    expect(stage.amounts(id)).toEqual([''])
    stage.publish(holder, tokenAccount(key(1), 200n))
    expect([stage.amounts(id), stage.reads.length]).toEqual([['', ''], 1])
    await vi.advanceTimersByTimeAsync(5_000)
    stage.publish(holder, tokenAccount(key(1), 300n))
    await turn()
    stage.reads[1]!.resolve([mintOf(2)])
    await turn()
    expect(stage.amounts(id)).toEqual(['', '', '3'])
  })

  it('does not wait without bound: the 1,001st sends them all', async () => {
    const id = stage.subscribe(holder)
    for (let at = 0; at < 1_000; at++) stage.publish(holder, tokenAccount(key(1), 1n))
    expect(stage.amounts(id)).toHaveLength(0)
    stage.publish(holder, tokenAccount(key(1), 1n))
    expect(stage.amounts(id)).toHaveLength(1_001)
  })

  it('sends nothing to a feed without subscribers', async () => {
    stage.subscribe(holder)
    stage.publish(holder, tokenAccount(key(1), 1n))
    await turn()
    stage.session.end()
    stage.reads[0]!.resolve([mintOf(2)])
    await turn()
    expect(stage.published).toEqual([])
  })
})

describe('a mint on the stream', () => {
  it('is cached without a read, replaces an older one, and is evicted when it is closed', async () => {
    const id = stage.subscribe(holder)
    stage.publish(key(1), mintOf(2).data)
    stage.publish(holder, tokenAccount(key(1), 100n))
    stage.publish(key(1), mintOf(1).data)
    stage.publish(holder, tokenAccount(key(1), 100n))
    expect([stage.amounts(id), stage.reads.length]).toEqual([['1', '10'], 0])
    stage.publish(key(1), new Uint8Array(0), key(0))
    stage.publish(holder, tokenAccount(key(1), 100n))
    await turn()
    expect(stage.reads).toHaveLength(1)
  })

  it('with a multiplier is cached with it, also of a time that the clock has to reach', () => {
    const scaled = Buffer.alloc(226)
    scaled.set(mintOf(2).data)
    scaled.set([1, 25, 0, 56, 0], 165)
    scaled.writeDoubleLE(3, 170 + 32)
    scaled.writeBigInt64LE(10n ** 12n, 170 + 40)
    scaled.writeDoubleLE(5, 170 + 48)
    // Metadata that goes beyond what is cached.
    const data = Buffer.concat([scaled, Buffer.from([19, 0, 0, 16]), Buffer.alloc(4_096)])
    const id = stage.subscribe(holder)
    stage.publish(key(1), data, programs.token2022)
    stage.publish(holder, tokenAccount(key(1), 100n), programs.token2022)
    const clock = Buffer.alloc(40)
    clock.writeBigInt64LE(10n ** 12n, 32)
    stage.publish(sysvars.clock, clock, sysvarOwner)
    stage.publish(holder, tokenAccount(key(1), 100n), programs.token2022)
    expect(stage.amounts(id)).toEqual(['3', '5'])
  })

  it('counts more than a read that is answered later', async () => {
    const id = stage.subscribe(holder)
    stage.publish(holder, tokenAccount(key(1), 100n))
    await turn()
    stage.publish(key(1), mintOf(1).data)
    stage.reads[0]!.resolve([mintOf(2)])
    await turn()
    expect(stage.amounts(id)).toEqual(['10'])
  })

  it('is dropped while no jsonParsed subscription exists', async () => {
    stage.publish(key(1), mintOf(2).data)
    stage.subscribe(holder)
    stage.publish(holder, tokenAccount(key(1), 100n))
    await turn()
    expect(stage.reads).toHaveLength(1)
  })
})
