import { afterEach, describe, expect, test } from 'vitest'
import { unackedBytesMax } from '../../../../src/indexer/config.ts'
import {
  Outbox,
  type OutboxDeps,
  type Sending,
  triesMax,
} from '../../../../src/indexer/feed/outbox.ts'
import type { Source } from '../../../../src/indexer/feed/source.ts'
import type { Delivery, Parcel } from '../../../../src/indexer/parcels.ts'
import type { Taken } from '../../../../src/indexer/writer.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'
import { until } from '../../../testkit/until.ts'

/** Events 1, 2, 3…; each is of the same size. */
class Counting implements Source {
  given = 0
  last = 0
  bytes = 100_000
  readonly #clock: HandClock
  constructor(clock: HandClock) {
    this.#clock = clock
  }
  next(): Parcel | null {
    if (this.given === this.last) return null
    this.given++
    const seq = this.given
    const content = { seq, kind: 'TPS' as const, payload: new Uint8Array(0), facts: null }
    const sinceMs = this.#clock.monotonicMs()
    return { feed: 'events', content, bytes: this.bytes, sinceMs, mark: seq }
  }
  waitingSinceMs(): number | null {
    return this.given === this.last ? null : this.#clock.monotonicMs()
  }
}

interface Call {
  readonly delivery: Delivery
  answer(taken: Taken): void
  die(): void
}

class Stage {
  readonly clock = new HandClock()
  readonly source = new Counting(this.clock)
  readonly durable: number[] = []
  readonly dropped: number[] = []
  retries = 0
  isOpen = true
  calls: Call[] = []
  readonly outbox: Outbox

  constructor() {
    const seqs = ({ delivery }: Sending) => seqsOf(delivery)
    const deps: OutboxDeps = {
      deliver: (delivery) =>
        new Promise((resolve, reject) => {
          const call: Call = {
            delivery,
            answer: (taken) => this.#end(call, () => resolve(taken)),
            die: () => this.#end(call, () => reject(new Error('gone'))),
          }
          this.calls.push(call)
        }),
      isOpen: () => this.isOpen,
      onDurable: (sending) => this.durable.push(...seqs(sending)),
      onRetry: () => this.retries++,
      onDropped: (sending) => this.dropped.push(...seqs(sending)),
      clock: this.clock,
    }
    this.outbox = new Outbox([this.source], deps)
  }

  #end(call: Call, how: () => void): void {
    this.calls = this.calls.filter((one) => one !== call)
    how()
  }

  say(count: number): void {
    this.source.last += count
    this.outbox.wake()
  }

  /** The writer dies with everything it has, and another one serves. */
  async die(): Promise<void> {
    this.isOpen = false
    for (const call of this.calls) call.die()
    await new Promise((resolve) => setImmediate(resolve))
    this.isOpen = true
    this.outbox.writerOpened()
  }

  answerAll(): void {
    for (const call of this.calls) call.answer({ isWritten: true })
  }

  async finish(): Promise<void> {
    await until(() => {
      this.answerAll()
      return this.outbox.isEmpty
    }, 'everything is durable')
  }
}

function seqsOf({ parcels }: Delivery): number[] {
  return parcels.map(({ mark }) => mark!)
}

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)
let stage = new Stage()
afterEach(() => {
  stage.outbox.stop()
  stage = new Stage()
})

describe('the outbox', () => {
  test('delivers everything once, in order', async () => {
    stage.say(50)
    await stage.finish()
    expect(stage.durable).toEqual(upTo(50))
    expect(stage.outbox.unackedBytes).toBe(0)
  })

  test('reads no further than its window while the writer is stalled', async () => {
    stage.say(1_000)
    await until(() => stage.outbox.unackedBytes >= unackedBytesMax, 'a full window')
    const given = stage.source.given
    expect(given * stage.source.bytes).toBeLessThan(unackedBytesMax + 4 * 100_000)
    stage.say(1_000)
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(stage.source.given).toBe(given)
    await stage.finish()
    expect(stage.durable).toEqual(upTo(2_000))
  })

  test('retries, in order, what a dead writer had not acknowledged', async () => {
    stage.say(20)
    await until(() => stage.calls.length > 3, 'some are sent')
    stage.calls[0]!.answer({ isWritten: true })
    await stage.die()
    await stage.finish()
    expect(stage.durable).toEqual(upTo(20))
    expect(stage.retries).toBeGreaterThan(0)
    expect(stage.dropped).toEqual([])
  })

  test('drops nothing, however often a writer that makes progress dies', async () => {
    stage.source.bytes = 300_000
    stage.say(20)
    for (let deaths = 0; deaths < 8; deaths++) {
      await until(() => stage.calls.length > 2, 'some are sent')
      stage.calls[0]!.answer({ isWritten: true })
      await stage.die()
    }
    await stage.finish()
    expect(stage.dropped).toEqual([])
    expect(stage.durable).toEqual(upTo(20))
  })

  test('drops only a delivery that crashes the writer when sent alone', async () => {
    stage.source.bytes = 300_000
    stage.say(12)
    const bad = 5
    await until(async () => {
      for (const call of stage.calls) {
        if (seqsOf(call.delivery)[0] === bad) {
          await stage.die()
          break
        }
        call.answer({ isWritten: true })
      }
      return stage.outbox.isEmpty
    }, 'the rest is durable')
    expect(stage.dropped).toEqual([bad])
    expect([...stage.durable].sort((a, b) => a - b)).toEqual(upTo(12).filter((seq) => seq !== bad))
  })

  test('drops a delivery that the sink rejects alone, after a few retries', async () => {
    stage.source.bytes = 300_000
    stage.say(6)
    let rejections = 0
    await until(() => {
      // Written together, they are rejected together.
      const hasBad = stage.calls.some(({ delivery }) => seqsOf(delivery)[0] === 3)
      if (hasBad) rejections++
      for (const call of stage.calls)
        call.answer(hasBad ? { rejected: 'bad' } : { isWritten: true })
      return stage.outbox.isEmpty
    }, 'the rest is durable')
    expect(stage.dropped).toEqual([3])
    expect(rejections).toBeGreaterThanOrEqual(triesMax)
    expect(stage.durable).toEqual([1, 2, 4, 5, 6])
  })

  test('reports the age of the oldest update that is not durable', async () => {
    expect(stage.outbox.lagMs()).toBe(0)
    stage.say(1)
    await until(() => stage.calls.length === 1, 'it is sent')
    stage.clock.advance(1_500)
    expect(stage.outbox.lagMs()).toBe(1_500)
    stage.answerAll()
    await until(() => stage.outbox.isEmpty, 'it is durable')
    expect(stage.outbox.lagMs()).toBe(0)
  })

  test('sends nothing while no writer is ready', async () => {
    stage.isOpen = false
    stage.say(3)
    await new Promise((resolve) => setTimeout(resolve, 30))
    expect(stage.source.given).toBe(0)
    stage.isOpen = true
    stage.outbox.writerOpened()
    await stage.finish()
    expect(stage.durable).toEqual([1, 2, 3])
  })
})
