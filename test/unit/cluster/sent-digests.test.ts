// The exchange of sent transactions with a store of digests in memory.
import { describe, expect, it } from 'vitest'
import { Fault } from '../../../src/base/errors.ts'
import type { DigestBatch, Digests } from '../../../src/cluster/ports.ts'
import { outboxMax, SentDigests } from '../../../src/cluster/sent-digests.ts'
import { until } from '../../testkit/until.ts'

class Memory {
  readonly batches: { readonly owner: string; readonly digests: readonly Uint8Array[] }[] = []
  readonly owners = new Map<string, string>()
  readonly listeners = new Set<() => void>()
  isAway = false
  reads = 0

  of(owner: string): Digests {
    return {
      send: async (digests) => {
        if (this.isAway) throw new Fault('cluster', 'away', { retryable: true })
        this.batches.push({ owner, digests })
        for (const listener of this.listeners) listener()
        for (const one of digests) if (!this.owners.has(hex(one))) this.owners.set(hex(one), owner)
        return digests.filter((one) => this.owners.get(hex(one)) !== owner)
      },
      after: async (number, max) => {
        this.reads++
        const news = this.batches.map((batch, at): DigestBatch => {
          const isOwn = batch.owner === owner
          return { number: at + 1, ageMs: 4, digests: isOwn ? [] : batch.digests }
        })
        return news.slice(number, number + max)
      },
      listen: (onNotify) => {
        this.listeners.add(onNotify)
        return () => this.listeners.delete(onNotify)
      },
    }
  }
}

const hex = (digest: Uint8Array) => Buffer.from(digest).toString('hex')
const digest = (at: number) => {
  const bytes = Buffer.alloc(32)
  bytes.writeUInt32LE(at)
  return bytes.toString('latin1')
}

function stage() {
  const memory = new Memory()
  const gateways = ['a', 'b'].map((owner) => {
    const sent = new SentDigests(memory.of(owner))
    const learned: string[] = []
    sent.onLearned((one) => learned.push(one))
    return { sent, learned }
  })
  return { memory, a: gateways[0]!, b: gateways[1]! }
}

describe('digests of sent transactions', () => {
  it('are published together, and learned by the other gateway only', async () => {
    const { memory, a, b } = stage()
    const answers = [a.sent.publish(digest(1)), a.sent.publish(digest(2))]
    expect(await Promise.all(answers)).toEqual([false, false])
    expect(memory.batches).toHaveLength(1)
    await Promise.all([a.sent.read(), b.sent.read()])
    expect([a.learned, b.learned]).toEqual([[], [digest(1), digest(2)]])
    expect(await b.sent.publish(digest(2))).toBe(true)
    expect(b.sent.stats()).toMatchObject({ published: 1, learned: 2, late: 1 })
  })

  it('are read to the end at once, each once', async () => {
    const { memory, a, b } = stage()
    for (let at = 0; at < 250; at++) {
      const answer = a.sent.publish(digest(at))
      await a.sent.send()
      await answer
    }
    await b.sent.read()
    await b.sent.read()
    expect(b.learned).toEqual(Array.from({ length: 250 }, (_, at) => digest(at)))
    expect(memory.reads).toBe(4)
  })

  it('are read on each notification, and not between them', async () => {
    const { memory, a, b } = stage()
    b.sent.start()
    await until(() => memory.reads === 1, 'the first read')
    for (const at of [1, 2, 3]) {
      await a.sent.publish(digest(at))
      await until(() => b.learned.length === at, 'the digest')
    }
    // One per notification, and those of a poll.
    expect(memory.reads).toBeLessThan(20)
    await b.sent.stop()
    expect(memory.listeners.size).toBe(0)
  })

  it('have an age when they are learned; those from before the start have none', async () => {
    const { a, b } = stage()
    const ages: number[] = []
    b.sent.onRead((age) => ages.push(age))
    await a.sent.publish(digest(1))
    await b.sent.read()
    expect(ages).toEqual([])
    await a.sent.publish(digest(2))
    await b.sent.read()
    expect(ages).toEqual([0.004])
  })

  it('are dropped while PostgreSQL is away and when too many wait, and nobody is kept waiting', async () => {
    const { memory, a } = stage()
    memory.isAway = true
    const answer = a.sent.publish(digest(1))
    await a.sent.send()
    expect(await answer).toBe(false)
    expect(a.sent.stats()).toMatchObject({ dropped: 1, failures: 1, published: 0 })
    memory.isAway = false
    const answers = Array.from({ length: outboxMax + 5 }, (_, at) => a.sent.publish(digest(at)))
    expect(a.sent.stats().dropped).toBe(6)
    await Promise.all(answers)
    expect(a.sent.stats().published).toBe(outboxMax)
  })
})
