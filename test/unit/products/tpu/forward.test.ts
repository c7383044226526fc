// Forwarding: every submission ends exactly once, as landed, expired or failed.
import { describe, expect, it } from 'vitest'
import type { Outcome } from '../../../../src/base/errors.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { keyOf } from '../../../../src/chain/solana/base58.ts'
import {
  blockMetaUpdate,
  slotUpdate,
  transactionUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import {
  type SlotStatus,
  type SolanaUpdate,
  slotStatus,
} from '../../../../src/chain/solana/updates.ts'
import { Forwarder, submissionOf, TipLog } from '../../../../src/products/tpu/forward.ts'
import { declareTpuMeters } from '../../../../src/products/tpu/meters.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub, type SolanaHub } from '../../../../src/streams/geyser/hub.ts'
import { FakeClock, FakeSender, notTaken, unreachable } from '../../../testkit/fake-senders.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

interface StageOptions {
  readonly whenDown?: 'refuse' | 'queue'
  readonly wait?: boolean
  readonly senders?: number
  readonly hub?: SolanaHub
}

function stage(options: StageOptions = {}) {
  const clock = new FakeClock()
  const senders = Array.from({ length: options.senders ?? 1 }, () => new FakeSender())
  const registry = new Meters()
  const meters = declareTpuMeters(registry)
  const tips = new TipLog()
  const blockhashes = { isValid: true as boolean | null }
  const forwarder = new Forwarder({
    senders,
    hub: options.hub ?? null,
    slot: () => 10,
    isBlockhashValid: () => blockhashes.isValid,
    whenDown: options.whenDown ?? 'refuse',
    wait: options.wait ?? false,
    meters,
    tips,
    clock,
  })
  let made = 0
  const submission = (triesMax = Number.POSITIVE_INFINITY) =>
    submissionOf({
      bytes: Uint8Array.of(made),
      digest: String(made),
      signature: Buffer.alloc(64, String(++made).padStart(8, '0')),
      feePayer: new Uint8Array(32),
      blockhash: new Uint8Array(32),
      tipAccount: 'tip',
      tipLamports: 1_000_000,
      receivedAtMs: clock.nowMs(),
      takenMs: clock.monotonicMs(),
      triesMax,
    })
  const passes = async (ms: number) => {
    clock.ms += ms
    forwarder.tick()
    await settle()
  }
  const endings = () => {
    const { landed, expired, failed } = meters.endings
    return { landed: landed.value, expired: expired.value, failed: failed.value }
  }
  const parts = { clock, forwarder, senders, tips, blockhashes, submission, passes, endings }
  return { ...parts, meters, registry }
}

const emptyMeta = (at: { slot: number; parent: number; transactions: number }) =>
  blockMetaUpdate(
    { slot: at.slot, createdAtMs: 0 },
    {
      blockhash: `hash${at.slot} ${at.parent}`,
      parentSlot: at.parent,
      parentBlockhash: `hash${at.parent}`,
      blockTime: 1,
      blockHeight: at.slot,
      executedTransactionCount: at.transactions,
      entriesCount: 0,
      rewards: [],
    },
  )

const settle = () => new Promise((resolve) => setImmediate(resolve))
const codeOf = (outcome: Outcome<null>) => (outcome.ok ? 'ok' : outcome.refusal.code)

describe('forwarding', () => {
  it('sends to all upstreams in parallel and ends as landed', async () => {
    const { forwarder, senders, submission, passes, endings, tips, registry } = stage({
      senders: 2,
    })
    const one = submission()
    expect(codeOf(await forwarder.take(one))).toBe('ok')
    expect(senders.map(({ sent }) => sent.length)).toEqual([1, 1])
    senders[1]!.known.set(keyOf(one.signature), { slot: 13, isSuccess: true })
    await passes(2_000)
    expect(endings()).toEqual({ landed: 1, expired: 0, failed: 0 })
    expect(tips.last(5)).toMatchObject([{ outcome: 'landed', reason: '', landedSlot: 13 }])
    expect((await registry.render('text')).body).toContain('sluice_tpu_land_seconds_sum 2\n')
    await passes(200_000)
    expect(senders[0]!.sent).toHaveLength(1)
  })

  it('counts a transaction that failed on chain as failed, since its tip was not paid', async () => {
    const { forwarder, senders, submission, passes, endings, tips } = stage()
    const one = submission()
    await forwarder.take(one)
    senders[0]!.known.set(keyOf(one.signature), { slot: 11, isSuccess: false })
    await passes(2_000)
    expect(endings()).toEqual({ landed: 0, expired: 0, failed: 1 })
    expect(tips.last(1)).toMatchObject([{ reason: 'ON_CHAIN_ERROR', landedSlot: 11 }])
  })

  it('resends each 2 s until two minutes passed when no blockhash is known', async () => {
    const { forwarder, senders, submission, passes, endings, blockhashes } = stage()
    blockhashes.isValid = null
    await forwarder.take(submission())
    await passes(1_999)
    expect(senders[0]!.sent).toHaveLength(1)
    for (let times = 0; times < 10; times++) await passes(2_000)
    expect(senders[0]!.sent).toHaveLength(11)
    expect(endings()).toEqual({ landed: 0, expired: 0, failed: 0 })
    await passes(120_000)
    expect(endings()).toEqual({ landed: 0, expired: 1, failed: 0 })
  })

  it('resends while its blockhash is valid, however slow the chain is', async () => {
    const { forwarder, senders, submission, passes, endings, blockhashes } = stage()
    // The block of the hash is confirmed after the submission came.
    blockhashes.isValid = false
    await forwarder.take(submission())
    blockhashes.isValid = true
    for (let times = 0; times < 100; times++) await passes(2_000)
    expect(senders[0]!.sent).toHaveLength(101)
    blockhashes.isValid = false
    await passes(2_000)
    expect(endings()).toEqual({ landed: 0, expired: 1, failed: 0 })
    expect(senders[0]!.sent).toHaveLength(101)
  })

  it('resends for two minutes once nobody shows whether its blockhash is valid', async () => {
    const { forwarder, senders, submission, passes, endings, blockhashes } = stage()
    await forwarder.take(submission())
    for (let times = 0; times < 100; times++) await passes(2_000)
    blockhashes.isValid = null
    for (let times = 0; times < 59; times++) await passes(2_000)
    expect(endings()).toEqual({ landed: 0, expired: 0, failed: 0 })
    await passes(2_000)
    expect(endings()).toEqual({ landed: 0, expired: 1, failed: 0 })
    expect(senders[0]!.sent).toHaveLength(160)
  })

  const fates = ['is dead', 'loses its fork', 'has another bank that wins'] as const
  const ends = ['lands later', 'never lands'] as const
  const everyEnd = fates.flatMap((fate) => ends.map((end) => [fate, end] as const))
  it.each(everyEnd)(
    'goes on when the slot in which it was processed %s, and %s',
    async (fate, end) => {
      const hub = openSolanaHub()
      const { forwarder, senders, submission, passes, endings, tips, meters, blockhashes } = stage({
        hub,
      })
      forwarder.start()
      const one = submission()
      await forwarder.take(one)
      const sink = new SolanaUpstream(hub, { log: silentLog })
      const send = (update: SolanaUpdate) => void sink.batch(batchFrom([messageOf(update)]))
      const reports = (slot: number, status: SlotStatus, parent = slot - 1) =>
        send(slotUpdate({ slot, createdAtMs: 0 }, { parent, status }))
      const content = { ...new SyntheticSolana().transaction(0), signatures: [one.signature] }
      const block = (
        slot: number,
        { has, parent = slot - 1 }: { has: boolean; parent?: number },
      ) => {
        reports(slot, slotStatus.createdBank, parent)
        if (has) send(transactionUpdate({ slot, createdAtMs: 0 }, { ...content, index: 0 }))
        send(emptyMeta({ slot, parent, transactions: has ? 1 : 0 }))
        reports(slot, slotStatus.processed, parent)
      }
      sink.opened(1)
      block(10, { has: false })
      block(11, { has: true })
      if (fate === 'is dead') reports(11, slotStatus.dead)
      else if (fate === 'loses its fork') block(12, { has: false, parent: 10 })
      else block(11, { has: false, parent: 9 })
      const winner = fate === 'loses its fork' ? 12 : 11
      if (fate !== 'is dead')
        for (const status of [slotStatus.confirmed, slotStatus.finalized])
          reports(winner, status, winner === 12 ? 10 : 9)
      await passes(2_000)
      expect(senders[0]!.sent).toHaveLength(2)
      expect(endings()).toEqual({ landed: 0, expired: 0, failed: 0 })
      expect([meters.tipsLanded.value, tips.last(5)]).toEqual([0, []])
      if (end === 'never lands') {
        blockhashes.isValid = false
        await passes(2_000)
        expect(endings()).toEqual({ landed: 0, expired: 1, failed: 0 })
        expect(tips.last(5)).toMatchObject([{ outcome: 'expired', landedSlot: 0 }])
        expect(meters.tipsLanded.value).toBe(0)
      } else {
        block(13, { has: true, parent: winner })
        expect(endings().landed).toBe(0)
        expect(tips.last(5)).toEqual([])
        reports(13, slotStatus.confirmed, winner)
        expect(endings()).toEqual({ landed: 1, expired: 0, failed: 0 })
        expect(tips.last(5)).toMatchObject([{ outcome: 'landed', landedSlot: 13 }])
        expect(meters.tipsLanded.value).toBe(one.tipLamports)
      }
      await forwarder.stop()
    },
  )

  it('respects maxRetries', async () => {
    const { forwarder, senders, submission, passes } = stage()
    await forwarder.take(submission(1))
    for (let times = 0; times < 3; times++) await passes(2_000)
    expect(senders[0]!.sent).toHaveLength(1)
  })

  it('expires with its blockhash', async () => {
    const { forwarder, submission, passes, endings, blockhashes, senders } = stage()
    await forwarder.take(submission())
    blockhashes.isValid = false
    await passes(2_000)
    expect(endings()).toEqual({ landed: 0, expired: 1, failed: 0 })
    expect(senders[0]!.sent).toHaveLength(1)
  })

  it('fails a submission that every upstream refuses, and continues where one did not', async () => {
    const { forwarder, senders, submission, passes, endings, tips } = stage({ senders: 2 })
    for (const sender of senders) sender.word = notTaken
    await forwarder.take(submission())
    await settle()
    expect(endings()).toEqual({ landed: 0, expired: 0, failed: 1 })
    expect(tips.last(1)).toMatchObject([{ reason: 'CHAIN_REJECTED' }])
    senders[0]!.word = unreachable
    await forwarder.take(submission())
    await passes(2_000)
    expect(senders[0]!.sent).toHaveLength(3)
  })

  it('refuses while no upstream is healthy', async () => {
    const { forwarder, senders, submission, endings } = stage()
    senders[0]!.isHealthy = false
    expect(codeOf(await forwarder.take(submission()))).toBe('NO_UPSTREAM')
    expect(senders[0]!.sent).toHaveLength(0)
    expect(endings()).toEqual({ landed: 0, expired: 0, failed: 0 })
  })

  it('fails when none of the attempts that its sender allows reached an upstream', async () => {
    const { forwarder, senders, submission, passes, endings } = stage()
    senders[0]!.word = unreachable
    expect(codeOf(await forwarder.take(submission(5)))).toBe('ok')
    for (let times = 0; times < 6; times++) await passes(2_000)
    expect(senders[0]!.sent).toHaveLength(5)
    expect(endings()).toEqual({ landed: 0, expired: 0, failed: 1 })
  })

  it('queues while no upstream is healthy, and sends when one is', async () => {
    const { forwarder, senders, submission, passes, endings } = stage({ whenDown: 'queue' })
    const [sender] = senders
    sender!.isHealthy = false
    for (let count = 0; count < 10_000; count++)
      expect(codeOf(await forwarder.take(submission()))).toBe('ok')
    expect(codeOf(await forwarder.take(submission()))).toBe('BUSY')
    await passes(250)
    expect(sender!.sent).toHaveLength(0)
    sender!.isHealthy = true
    for (let times = 0; times < 5; times++) await passes(250)
    expect(sender!.sent).toHaveLength(10_000)
    await forwarder.stop()
    expect(endings()).toEqual({ landed: 0, expired: 0, failed: 10_000 })
    expect(sender!.isStopped).toBe(true)
  })

  it('with a queue, sends again every two seconds what a healthy upstream cannot take', async () => {
    for (const wait of [false, true]) {
      const { forwarder, senders, submission, passes, endings } = stage({ whenDown: 'queue', wait })
      senders[0]!.word = unreachable
      expect(codeOf(await forwarder.take(submission(3)))).toBe('ok')
      for (let times = 0; times < 20; times++) await passes(250)
      expect(senders[0]!.sent).toHaveLength(3)
      expect(endings()).toEqual({ landed: 0, expired: 0, failed: 1 })
    }
  })

  it('queues a submission again whose upstream went down meanwhile, until it expires', async () => {
    const { forwarder, senders, submission, passes, endings, blockhashes } = stage({
      whenDown: 'queue',
    })
    const [sender] = senders
    sender!.word = unreachable
    const taken = forwarder.take(submission(1))
    sender!.isHealthy = false
    await taken
    await passes(120_000)
    expect(sender!.sent).toHaveLength(1)
    sender!.isHealthy = true
    await passes(250)
    // The attempt that did not reach it is not counted, the next one is.
    expect(sender!.sent).toHaveLength(2)
    expect(endings()).toEqual({ landed: 0, expired: 0, failed: 1 })
    sender!.isHealthy = false
    await forwarder.take(submission())
    await passes(120_000)
    expect(endings().expired).toBe(0)
    blockhashes.isValid = false
    await passes(2_000)
    expect(endings()).toEqual({ landed: 0, expired: 1, failed: 1 })
  })

  it('with wait, resolves with the first success of an upstream', async () => {
    const { forwarder, senders, submission, endings } = stage({ wait: true, senders: 2 })
    senders[0]!.word = notTaken
    let answer: (outcome: Outcome<null>) => void = () => {}
    senders[1]!.word = new Promise((resolve) => {
      answer = resolve
    })
    let isAnswered = false
    const taken = Promise.resolve(forwarder.take(submission())).then((outcome) => {
      isAnswered = true
      return codeOf(outcome)
    })
    await settle()
    expect(isAnswered).toBe(false)
    answer({ ok: true, value: null })
    expect(await taken).toBe('ok')
    senders[1]!.word = notTaken
    expect(codeOf(await forwarder.take(submission()))).toBe('CHAIN_REJECTED')
    senders[1]!.word = unreachable
    expect(codeOf(await forwarder.take(submission()))).toBe('NO_UPSTREAM')
    expect(endings()).toEqual({ landed: 0, expired: 0, failed: 2 })
  })
})
