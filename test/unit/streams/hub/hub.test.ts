import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import type { Commitment } from '../../../../src/base/commitment.ts'
import { Hub } from '../../../../src/streams/hub/hub.ts'
import type { Listed } from '../../../../src/streams/hub/update-list.ts'

interface Said {
  readonly slot: number
  readonly text: string
}

function open(replaySlots = 150, replayBytesMax = 1_000_000) {
  const hub = new Hub<Said>({ replaySlots, replayBytesMax }, () => 10)
  const heard: [string[], string[], string[]] = [[], [], []]
  hub.listen((commitment, { slot, text }) => void heard[commitment].push(`${slot}${text}`))
  return { hub, heard }
}

function drain(hub: Hub<Said>, commitment: Commitment, from: number): string[] | null {
  const replay = hub.replay(commitment, from)
  if (replay === null) return null
  const said: string[] = []
  for (let next = replay.next(); next !== null; next = replay.next())
    said.push(`${next.slot}${next.text}`)
  return said
}

describe('the hub', () => {
  it('keeps nothing when the chain begins anew, and says so', () => {
    const { hub, heard } = open()
    hub.content({ slot: 500, text: 'a' })
    const replay = hub.replay(0, 500)!
    let restarts = 0
    const stop = hub.onRestart(() => restarts++)
    hub.restart()
    expect([replay.isLost, hub.oldestSlot, hub.keptBytes, restarts]).toEqual([true, null, 0, 1])
    hub.content({ slot: 3, text: 'b' })
    hub.status({ slot: 500, text: 'C' }, 1)
    hub.status({ slot: 3, text: 'C' }, 1)
    expect(heard[1]).toEqual(['500C', '3b', '3C'])
    expect(drain(hub, 0, 3)).toEqual(['3b', '500C', '3C'])
    stop()
    hub.restart()
    expect(restarts).toBe(1)
  })

  it('replays from its first content: statuses of slots before say nothing of them', () => {
    const { hub } = open()
    const closed: number[] = []
    hub.onClosed = ({ slot }) => void closed.push(slot)
    hub.status({ slot: 4, text: 'C' }, 1)
    hub.status({ slot: 5, text: 'P' }, 0)
    expect([hub.oldestSlot, hub.oldestEra, drain(hub, 0, 5)]).toEqual([null, 4, null])
    hub.content({ slot: 6, text: 'a' })
    expect([hub.oldestSlot, hub.oldestEra]).toEqual([6, 4])
    expect([drain(hub, 0, 5), drain(hub, 0, 6)]).toEqual([null, ['6a']])
    hub.content({ slot: 7, text: 'b' })
    expect(closed).toEqual([6])
  })

  it('publishes a status before the content that higher commitments get with it', () => {
    const { hub } = open()
    const heard: string[] = []
    hub.listen((commitment, { text }) => void heard.push(`${text}${commitment}`))
    for (const text of ['a', 'b']) hub.content({ slot: 5, text })
    hub.status({ slot: 5, text: 'C' }, 1)
    expect(heard.splice(0)).toEqual(['a0', 'b0', 'C0', 'a1', 'b1', 'C1', 'C2'])
    hub.content({ slot: 6, text: 'd' })
    hub.status({ slot: 6, text: 'F' }, 2)
    expect(heard).toEqual(['d0', 'F0', 'd1', 'F1', 'd2', 'F2'])
    expect([drain(hub, 1, 5), drain(hub, 2, 6)]).toEqual([
      ['5a', '5b', '5C', '6d', '6F'],
      ['6d', '6F'],
    ])
  })

  it('replays nothing of a bank that was replaced, whatever slots came in between', () => {
    const { hub, heard } = open()
    hub.content({ slot: 5, text: 'void' })
    hub.status({ slot: 5, text: 'P' }, 0)
    hub.content({ slot: 6, text: 'a' })
    hub.replaceBank(5)
    hub.content({ slot: 5, text: 'b' })
    hub.content({ slot: 6, text: 'late' })
    hub.replaceBank(6)
    hub.content({ slot: 6, text: 'c' })
    hub.status({ slot: 5, text: 'C' }, 1)
    expect(heard[0]).toEqual(['5void', '5P', '6a', '5b', '6late', '6c', '5C'])
    expect(drain(hub, 0, 5)).toEqual(['5b', '6c', '5C'])
    expect(drain(hub, 1, 5)).toEqual(['5b', '5C'])
    expect(drain(hub, 0, 6)).toEqual(['6c'])
  })

  it('publishes content at once as processed, and a whole slot at each later commitment', () => {
    const { hub, heard } = open()
    hub.content({ slot: 5, text: 'a' })
    hub.content({ slot: 5, text: 'b' })
    hub.status({ slot: 5, text: 'P' }, 0)
    expect(heard).toEqual([['5a', '5b', '5P'], ['5P'], ['5P']])
    hub.status({ slot: 5, text: 'C' }, 1)
    hub.status({ slot: 5, text: 'F' }, 2)
    expect(heard[0]).toEqual(['5a', '5b', '5P', '5C', '5F'])
    expect(heard[1]).toEqual(['5P', '5a', '5b', '5C', '5F'])
    expect(heard[2]).toEqual(['5P', '5C', '5a', '5b', '5F'])
  })

  it('makes updates of a source again only for a commitment that some listener wants', () => {
    const hub = new Hub<Said & Listed>({ replaySlots: 150, replayBytesMax: 1_000_000 }, () => 10)
    const made: number[] = []
    const source = {
      update(position: number): Said & Listed {
        made.push(position)
        return { slot: 5, text: `item ${position}`, source, position }
      },
    }
    const heard: [string[], string[], string[]] = [[], [], []]
    let wanted = -1
    const listener = (commitment: Commitment, { text }: Said) => void heard[commitment].push(text)
    hub.listen(listener, (commitment) => commitment === wanted)
    for (const position of [0, 1]) hub.content({ slot: 5, text: 'first', source, position })
    hub.content({ slot: 5, text: 'block' })
    hub.content({ slot: 5, text: 'last', source, position: 2 })
    hub.status({ slot: 5, text: 'C' }, 1)
    expect([heard[1], made]).toEqual([['block', 'C'], []])
    wanted = 2
    hub.status({ slot: 5, text: 'F' }, 2)
    expect([heard[2].slice(1), made]).toEqual([
      ['item 0', 'item 1', 'block', 'item 2', 'F'],
      [0, 1, 2],
    ])
    for (const commitment of [1, 2] as const)
      expect(drain(hub, commitment, 5)?.filter((text) => !/[CF]$/.test(text))).toEqual(
        ['item 0', 'item 1', 'block', 'item 2'].map((text) => `5${text}`),
      )
  })

  it('drops the oldest slots whole when too much waits to be finalized', () => {
    const bounds = { replaySlots: 1, replayBytesMax: 1, unfinalizedBytesMax: 50 }
    const hub = new Hub<Said>(bounds, () => 10)
    const heard: string[] = []
    hub.listen((commitment, { slot, text }) => {
      if (commitment === 2) heard.push(`${slot}${text}`)
    })
    for (const slot of [5, 6, 7]) {
      hub.content({ slot, text: 'a' })
      hub.content({ slot, text: 'b' })
    }
    // Of a slot that lost its beginning, nothing but the status.
    hub.content({ slot: 5, text: 'c' })
    for (const slot of [5, 6, 7]) hub.status({ slot, text: 'F' }, 2)
    expect(heard).toEqual(['5F', '6a', '6b', '6F', '7a', '7b', '7F'])
    expect(hub.droppedSlots).toBe(1)
    // What was finalized or abandoned does not count.
    for (let slot = 8; slot < 30; slot++) {
      for (const text of ['a', 'b', 'c', 'd']) hub.content({ slot, text })
      if (slot % 2 === 0) hub.status({ slot, text: 'F' }, 2)
      else hub.abandon(slot)
    }
    hub.content({ slot: 30, text: 'a' })
    hub.restate(30, [{ slot: 30, text: 'x' }])
    hub.status({ slot: 30, text: 'F' }, 2)
    expect(heard.slice(-2)).toEqual(['30x', '30F'])
    expect(hub.droppedSlots).toBe(1)
  })

  it('keeps a time where slots are shorter, and no fewer slots where they are longer', () => {
    for (const [slotMs, replaySlots, waitSlots] of [
      [400, 150, 1_024],
      [200, 300, 2_000],
      [800, 150, 1_024],
    ] as const) {
      const bounds = { replaySlots: 150, replayMs: 60_000, replayBytesMax: 1e6 }
      const hub = new Hub<Said>(bounds, () => 10)
      for (let slot = 0; slot < 3_000; slot++) {
        hub.slotTime.observe(slot, slot * slotMs)
        hub.content({ slot, text: 'a' })
      }
      expect(hub.oldestSlot).toBe(3_000 - replaySlots)
      expect(hub.droppedSlots).toBe(3_000 - waitSlots)
    }
  })

  it('treats a slot as confirmed when only its finalization was reported', () => {
    const { hub, heard } = open()
    hub.content({ slot: 5, text: 'a' })
    hub.status({ slot: 5, text: 'F' }, 2)
    expect(heard).toEqual([
      ['5a', '5F'],
      ['5a', '5F'],
      ['5a', '5F'],
    ])
  })

  it('publishes no content of an abandoned slot, and late content at the commitments it missed', () => {
    const { hub, heard } = open()
    hub.content({ slot: 5, text: 'a' })
    hub.status({ slot: 5, text: 'D' }, null)
    hub.abandon(5)
    hub.status({ slot: 5, text: 'C' }, 1)
    expect(heard[1]).toEqual(['5D', '5C'])
    hub.content({ slot: 6, text: 'a' })
    hub.status({ slot: 6, text: 'C' }, 1)
    hub.content({ slot: 6, text: 'late' })
    expect(heard[1].slice(2)).toEqual(['6a', '6C', '6late'])
    hub.status({ slot: 6, text: 'F' }, 2)
    hub.content({ slot: 6, text: 'last' })
    for (const commitment of [0, 1, 2] as const)
      expect(heard[commitment].slice(-2)).toEqual(['6F', '6last'])
    expect([...hub.unfinalized(0)]).toEqual([])
  })

  it('replays one commitment from a slot as it was published, and knows its oldest slot', () => {
    const { hub, heard } = open(3)
    expect(hub.oldestSlot).toBeNull()
    expect(hub.replay(0, 1)).toBeNull()
    for (let slot = 1; slot <= 6; slot++) {
      hub.content({ slot, text: 'a' })
      hub.status({ slot, text: 'P' }, 0)
      if (slot > 1) hub.status({ slot: slot - 1, text: 'C' }, 1)
    }
    expect(hub.oldestSlot).toBe(4)
    expect(drain(hub, 0, 3)).toBeNull()
    for (const commitment of [0, 1] as const)
      for (const from of [4, 5, 6])
        expect(drain(hub, commitment, from)).toEqual(
          heard[commitment].filter((text) => Number.parseInt(text, 10) >= from),
        )
    expect(drain(hub, 0, 99)).toEqual([])
  })

  it('keeps fewer slots when they are large, but always the newest', () => {
    const { hub } = open(150, 35)
    for (let slot = 1; slot <= 9; slot++) hub.content({ slot, text: 'a' })
    expect(hub.oldestSlot).toBe(7)
    expect(hub.keptBytes).toBe(30)
    for (let index = 0; index < 9; index++) hub.content({ slot: 10, text: 'a' })
    expect(hub.oldestSlot).toBe(10)
  })

  it('reports a replay that fell out of the window', () => {
    const { hub } = open(2)
    for (let slot = 1; slot <= 2; slot++) hub.content({ slot, text: 'a' })
    const replay = hub.replay(0, 1)!
    expect(replay.isLost).toBe(false)
    hub.content({ slot: 3, text: 'a' })
    expect(replay.isLost).toBe(true)
  })

  it('frees evicted slots, whoever still holds a replay of them', async () => {
    setFlagsFromString('--expose-gc')
    // Reason for the cast: the flag adds the function to every new context.
    const collect = runInNewContext('gc') as () => void
    const { hub } = open(4)
    const published: WeakRef<Said>[] = []
    const publish = (slot: number) => {
      const said: Said = { slot, text: 'a' }
      published.push(new WeakRef(said))
      hub.content(said)
      hub.status({ slot, text: 'F' }, 2)
    }
    publish(1)
    const replay = hub.replay(0, 1)!
    for (let slot = 2; slot <= 1_000; slot++) publish(slot)
    // A WeakRef keeps its object until the turn ends.
    await new Promise((resolve) => setImmediate(resolve))
    collect()
    expect(published.filter((ref) => ref.deref() !== undefined).length).toBeLessThanOrEqual(4)
    expect(replay.isLost).toBe(true)
    expect(() => replay.next()).toThrow(/evicted/)
  })
})
