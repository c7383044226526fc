import { describe, expect, test } from 'vitest'
import type { FrameFacts } from '../../../../src/base/shared-log.ts'
import { EventType } from '../../../../src/chain/evm/event-payload.ts'
import type { JobOutcome } from '../../../../src/streams/analysis/block-jobs.ts'
import { ExecutionProjector } from '../../../../src/streams/flows/execution-projector.ts'
import type { FrameKind } from '../../../../src/streams/log/encoded.ts'
import { Bench } from '../../../testkit/analysis.ts'
import { EventScript } from '../../../testkit/event-script.ts'

const done: JobOutcome = {
  outcome: 'done',
  contention: Buffer.from('{"contention":1}'),
  top: Buffer.from('{"top":1}'),
  transactions: new Uint8Array(0),
}

/** Plays a script and projects its block-level events, as flows/execution.ts would. */
function project(write: (script: EventScript, bench: Bench) => void) {
  const bench = new Bench({ eventRingBytes: 1024 * 1024 })
  const script = new EventScript(bench.feed)
  write(script, bench)
  bench.feed.flush()
  bench.drain()
  const frames: [FrameKind, unknown][] = []
  const facts: [FrameKind, FrameFacts | null | undefined][] = []
  const projector = new ExecutionProjector({
    append(kind, payload, _sinceMs, known) {
      frames.push([kind, JSON.parse(Buffer.from(payload).toString())])
      facts.push([kind, known])
      return frames.length
    },
  })
  for (const control of bench.controls) {
    if (control.kind === 'ended' || control.kind === 'resumed') continue
    if (control.kind === 'gap') projector.gap(control.from, control.to, 0)
    else if (control.type === EventType.BlockStart) projector.start(control)
    else if (control.type === EventType.BlockEnd)
      projector.end(control, control.status === 1 ? done : null)
    else projector.stage(control)
  }
  return { frames, facts, projector }
}

const msOf = (timeNs: bigint) => Number(timeNs / 1_000_000n)

const moves = (frames: readonly [FrameKind, unknown][]) =>
  frames
    .filter(([kind]) => kind === 'Lifecycle')
    .map(([, payload]) => {
      const move = payload as { block_hash: string; from_stage?: string; to_stage: string }
      return [Number(move.block_hash), move.from_stage, move.to_stage]
    })

describe('execution projector', () => {
  test('attaches the block number and time to each frame', () => {
    const { facts } = project((script) => {
      script.start(5, { id: 51 })
      script.end()
      script.qc(51, 5)
    })
    expect(facts.map(([kind]) => kind)).toEqual([
      'TPS',
      'Lifecycle',
      'TopAccesses',
      'ContentionData',
      'Lifecycle',
    ])
    const known = facts.map(([, known]) => known!)
    expect(known.map(({ blockNumber }) => blockNumber)).toEqual([5, 5, 5, 5, 5])
    const [started, , , ended, voted] = known
    expect(ended?.block).toMatchObject({ txCount: 0, startedNs: started!.atNs })
    expect(Number(ended?.block?.blockHash)).toBe(51)
    expect(ended!.atNs).toBeGreaterThan(started!.atNs)
    expect(voted!.atNs).toBeGreaterThan(ended!.atNs)
  })

  test('reports the hash and the time of the block, of each move and of a gap', () => {
    const { frames, facts } = project((script, bench) => {
      script.start(5, { id: 51 })
      script.timeNs += 70_999_999n
      script.end()
      script.timeNs += 400_000_000n
      script.qc(51, 5)
      script.seqno += 5
      bench.feed.gap(script.seqno - 4, script.seqno)
    })
    const times = facts.map(([, known]) => known && msOf(known.atNs))
    const [, proposed, , contention, voted, gap] = frames.map(([, payload]) => payload) as Record<
      string,
      unknown
    >[]
    expect(contention).toEqual({
      block_hash: (proposed as { block_hash: string }).block_hash,
      at_ms: times[3],
      contention: 1,
    })
    expect([proposed?.at_ms, voted?.at_ms]).toEqual([times[1], times[4]])
    expect(gap?.at_ms).toBe(voted?.at_ms)
    // Rounded down to whole milliseconds since 1970.
    expect(times.slice(0, 5)).toEqual([0, 0, 71, 71, 471].map((ms) => 1_700_000_000_000 + ms))
  })

  test('has no time for a gap before the first block-level event', () => {
    const { frames } = project((script, bench) => {
      script.seqno = 9
      bench.feed.gap(3, 9)
    })
    expect(frames).toEqual([['Gap', { from: 3, to: 9 }]])
  })

  test('rejects the sibling of a finalized proposal, and verifies the finalized one', () => {
    const { frames, projector } = project((script) => {
      for (const id of [51, 52]) {
        script.start(5, { id })
        script.end()
      }
      script.qc(52, 5)
      script.finalized(51, 5)
      script.verified(5)
    })
    expect(moves(frames)).toEqual([
      [51, undefined, 'Proposed'],
      [52, undefined, 'Proposed'],
      [52, 'Proposed', 'Voted'],
      [51, 'Proposed', 'Finalized'],
      [52, 'Voted', 'Rejected'],
      [51, 'Finalized', 'Verified'],
    ])
    expect(Number(projector.block(5)?.blockHash)).toBe(51)
    expect(Number(projector.block('latest')?.blockHash)).toBe(52)
    expect(Number(projector.block('finalized')?.blockHash)).toBe(51)
  })

  test('does not count a rejected block as completed', () => {
    const { frames } = project((script) => {
      script.start(1)
      for (let txn = 0; txn < 10; txn++) script.header(txn)
      script.end()
      script.start(2)
      script.header(0)
      script.reject()
      script.start(2, { id: 22 })
    })
    expect(moves(frames)).toContainEqual([2, 'Proposed', 'Rejected'])
    const tps = frames.filter(([kind]) => kind === 'TPS').map(([, value]) => value)
    // 10 / 2 at both starts of number 2: the rejected one is not in the window.
    expect(tps).toEqual([0, 5, 5])
  })

  test('does not end a torn block with the BlockEnd of another block', () => {
    const { projector } = project((script, bench) => {
      script.start(1)
      script.seqno += 5
      bench.feed.gap(script.seqno - 4, script.seqno)
      // The start of block 2 was lost with the end of block 1.
      script.blockSeqno = script.seqno
      script.end()
    })
    expect(projector.latestBlock).toBe(0)
    expect(projector.lifecycle(1)).not.toHaveProperty('gas_used')
  })

  test('appends a Gap of the sequence numbers of a block whose analysis was lost', () => {
    const frames: [FrameKind, unknown][] = []
    const bench = new Bench({ eventRingBytes: 1024 * 1024 })
    const script = new EventScript(bench.feed)
    const from = script.start(1)
    script.header(0)
    script.timeNs += 70_000_000n
    const to = script.end()
    bench.drain()
    const projector = new ExecutionProjector({
      append: (kind, payload) => frames.push([kind, JSON.parse(Buffer.from(payload).toString())]),
    })
    const [start, end] = bench.controls
    if (start?.kind !== 'event' || end?.kind !== 'event') throw new Error('two events')
    projector.start(start)
    projector.end(end, { outcome: 'lost', reason: 'failed' })
    expect(frames.at(-1)).toEqual(['Gap', { from, to, at_ms: msOf(end.timeNs) }])
    expect(projector.latestBlock).toBe(1)
    expect(projector.block(1)).toBeNull()
  })

  test('appends a Gap for frames that got no number, when there is one again', () => {
    const frames: [FrameKind, unknown][] = []
    const bench = new Bench({ eventRingBytes: 1024 * 1024 })
    const script = new EventScript(bench.feed)
    const from = script.start(1)
    const to = script.end()
    script.timeNs += 400_000_000n
    script.start(2)
    bench.feed.flush()
    bench.drain()
    let hasNumbers = false
    const projector = new ExecutionProjector({
      append: (kind, payload) =>
        hasNumbers ? frames.push([kind, JSON.parse(Buffer.from(payload).toString())]) : 0,
    })
    const [start, end, next] = bench.controls
    if (start?.kind !== 'event' || end?.kind !== 'event' || next?.kind !== 'event')
      throw new Error('three events')
    projector.start(start)
    projector.end(end, done)
    hasNumbers = true
    projector.start(next)
    expect(frames.map(([kind]) => kind)).toEqual(['Gap', 'TPS', 'Lifecycle'])
    // The time of the last frame that was dropped, not of the one that found a number.
    expect(frames[0]?.[1]).toEqual({ from, to, at_ms: msOf(end.timeNs) })
    expect(msOf(next.timeNs)).toBeGreaterThan(msOf(end.timeNs))
  })
})
