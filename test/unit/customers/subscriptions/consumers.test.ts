// Commits are written in batches, the last of each name alone; whoever opened a name last has it.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import {
  Consumers,
  type ConsumerTable,
  type HeldName,
} from '../../../../src/customers/subscriptions/consumers.ts'

class FakeTable implements ConsumerTable {
  readonly rows = new Map<string, { term: number; position: string | null }>()
  readonly batches: HeldName[][] = []
  isAway = false

  async open(id: string, name: string) {
    if (this.isAway) throw new Error('away')
    const { term = 0, position = null } = this.rows.get(`${id} ${name}`) ?? {}
    this.rows.set(`${id} ${name}`, { term: term + 1, position })
    return { term: term + 1, position }
  }

  async commit(held: readonly HeldName[]) {
    if (this.isAway) throw new Error('away')
    this.batches.push([...held])
    return held.filter(({ id, name, term, position }) => {
      if (this.rows.get(`${id} ${name}`)?.term !== term) return true
      if (position !== null) this.rows.set(`${id} ${name}`, { term, position })
      return false
    })
  }

  list = async () => []
  remove = async () => 0
}

let table: FakeTable
let consumers: Consumers

beforeEach(() => {
  vi.useFakeTimers()
  table = new FakeTable()
  consumers = new Consumers({ table, clock: systemClock, log: silentLog })
})

afterEach(() => {
  vi.useRealTimers()
})

async function opened(name: string, taken = () => {}, from = consumers) {
  const held = await from.of('s1').open(name, taken)
  if (typeof held === 'string') throw new Error(held)
  return held
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

describe('commits', () => {
  it('of a moment are one batch, with the last position of each name', async () => {
    const [a, b] = [await opened('a'), await opened('b')]
    const done: string[] = []
    const encode = vi.fn((text: string) => text)
    for (let count = 0; count < 100; count++)
      void a.commit(() => encode(`a${count}`)).then(() => done.push(`a${count}`))
    void b.commit(() => encode('b')).then(() => done.push('b'))
    await pass(49)
    expect(done).toEqual([])
    await pass(1)
    expect(table.batches.map((rows) => rows.map(({ position }) => position))).toEqual([
      ['a99', 'b'],
    ])
    // What is not stored is not even encoded.
    expect(encode).toHaveBeenCalledTimes(2)
    expect(done.length).toBe(101)
  })

  it('wait while the table is away', async () => {
    const a = await opened('a')
    let isStored = false
    table.isAway = true
    void a
      .commit(() => 'first')
      .then(() => {
        isStored = true
      })
    await pass(5_000)
    expect(isStored).toBe(false)
    expect(await consumers.of('s1').open('b', () => {})).toBe('away')
    table.isAway = false
    await pass(1_000)
    expect(isStored).toBe(true)
    expect(table.rows.get('s1 a')?.position).toBe('first')
  })

  it('of a stream that ends are stored', async () => {
    const a = await opened('a')
    void a.commit(() => 'last')
    a.close()
    await pass(0)
    expect(table.rows.get('s1 a')?.position).toBe('last')
  })
})

describe('a name', () => {
  it('begins where the stream before has just committed', async () => {
    const first = await opened('a')
    void first.commit(() => 'place')
    expect((await opened('a')).position).toBe('place')
  })

  it('is taken from the stream before, here at once and elsewhere within a second', async () => {
    const taken = [vi.fn(), vi.fn()]
    const first = await opened('a', taken[0])
    await opened('a', taken[1])
    expect(taken[0]).toHaveBeenCalledTimes(1)
    const late = vi.fn()
    void first.commit(() => 'late').then(late)
    const other = new Consumers({ table, clock: systemClock, log: silentLog })
    await opened('a', () => {}, other)
    expect(taken[1]).not.toHaveBeenCalled()
    await pass(1_000)
    expect(taken[1]).toHaveBeenCalledTimes(1)
    expect(late).not.toHaveBeenCalled()
    expect(table.rows.get('s1 a')?.position).toBeNull()
  })

  it('is short and plain', async () => {
    for (const name of ['', 'a b', 'x'.repeat(65), 'a/b', 'é'])
      expect(await consumers.of('s1').open(name, () => {})).toBe('bad-name')
    await opened('A-z_0.9')
  })
})
