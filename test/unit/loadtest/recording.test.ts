import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { type ArrivalPlan, Arrivals } from '../../../src/loadtest/arrivals.ts'
import { readRecording, replayPlan, writeRecording } from '../../../src/loadtest/recording.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-recording-'))
afterAll(() => rmSync(folder, { recursive: true }))
const path = join(folder, 'load.jsonl')
const calls = ['{"method":"a"}', '{"method":"b"}', '{"method":"c"}']
const poisson: ArrivalPlan = {
  kind: 'poisson',
  rate: 500,
  seed: 3,
  durationMs: 4_000,
  callCount: calls.length,
}

function walk(plan: ArrivalPlan, share = { thread: 0, of: 1 }): [number, number][] {
  const found: [number, number][] = []
  for (
    const arrivals = new Arrivals(plan, share);
    Number.isFinite(arrivals.nextMs);
    arrivals.advance()
  )
    found.push([arrivals.nextMs, arrivals.call])
  return found
}

function read() {
  const recording = readRecording(path)
  if (!recording.ok) throw new Error(recording.refusal.message)
  return recording.value
}

describe('a recorded load', () => {
  test('is replayed with the same calls at the same times', () => {
    writeRecording(path, { kind: 'rpc', calls, plan: poisson, warmUpMs: 1_000 })
    const recording = read()
    expect(recording).toMatchObject({ kind: 'rpc', calls, warmUpMs: 1_000, durationMs: 4_000 })
    const before = walk(poisson)
    const after = walk(replayPlan(recording, 1))
    expect(after.map(([, call]) => call)).toEqual(before.map(([, call]) => call))
    for (const [index, [atMs]] of after.entries()) expect(atMs).toBeCloseTo(before[index]![0], 5)
  })

  test('is replayed up to 100 times as fast', () => {
    writeRecording(path, { kind: 'rpc', calls, plan: poisson, warmUpMs: 0 })
    const slow = walk(replayPlan(read(), 1))
    const fast = walk(replayPlan(read(), 100))
    expect(fast.length).toBe(slow.length)
    expect(fast.at(-1)![0] * 100).toBeCloseTo(slow.at(-1)![0], 5)
    expect(replayPlan(read(), 100).durationMs).toBe(40)
  })

  test('is split over threads without a call lost or doubled', () => {
    const shares = [0, 1, 2].flatMap((thread) => walk(poisson, { thread, of: 3 }))
    expect(shares.sort(([a], [b]) => a - b)).toEqual(walk(poisson))
  })

  test('is refused when it is damaged or no recording', () => {
    writeRecording(path, { kind: 'rpc', calls, plan: poisson, warmUpMs: 0 })
    const lines = readFileSync(path, 'utf8').split('\n')
    const problem = (text: string) => {
      writeFileSync(path, text)
      const recording = readRecording(path)
      return recording.ok ? 'accepted' : recording.refusal.message
    }
    expect(problem([...lines.slice(0, 3), '[1,9]'].join('\n'))).toMatch(/damaged in line 4/)
    expect(problem([...lines.slice(0, 2), '[5,'].join('\n'))).toMatch(/damaged in line 3/)
    expect(problem(lines[0]!)).toMatch(/has no calls/)
    expect(problem('{"format":"other"}')).toMatch(/is no recording/)
    expect(problem('')).toMatch(/is no recording/)
    rmSync(path)
    expect(readRecording(path).ok).toBe(false)
  })
})
