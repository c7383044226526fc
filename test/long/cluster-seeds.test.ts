// Seeded scripts of whole clusters in process, under virtual time: what is confirmed at a gateway is
// the winner's on every product, and a client that applies retractions ends with the same.
//
// A seed that fails is replayed alone:
//   SLUICE_SEED=17 npx vitest run --config vitest.long.config.ts test/long/cluster-seeds.test.ts
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { runSeed, type SeededOutcome } from '../testkit/seeded-run.ts'
import { isSlice } from '../testkit/slice.ts'

const only = Number(process.env.SLUICE_SEED ?? 0)
const count = isSlice ? 50 : 1_000
const seeds = only > 0 ? [only] : Array.from({ length: count }, (_, index) => index + 1)

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

async function replayable(seed: number): Promise<SeededOutcome> {
  try {
    return await runSeed(seed)
  } catch (error) {
    const { message } = error as Error
    const file = 'test/long/cluster-seeds.test.ts'
    const line = `SLUICE_SEED=${seed} npx vitest run --config vitest.long.config.ts ${file}`
    throw Object.assign(error as Error, { message: `seed ${seed}: ${message}\nreplay: ${line}` })
  }
}

it(`confirms exactly the winners with ${seeds.length} seeds`, async () => {
  const reasons = new Set<string>()
  let [failovers, answered, asked] = [0, 0, 0]
  for (const seed of seeds) {
    const outcome = await replayable(seed)
    for (const reason of outcome.reasons) reasons.add(reason)
    failovers += outcome.connections - 1
    answered += outcome.answered
    asked += outcome.asked
  }
  if (only > 0) return
  expect([...reasons].toSorted()).toEqual(['dead', 'fork', 'handover', 'migration'])
  expect(failovers).toBeGreaterThan(seeds.length)
  expect(answered / asked).toBeGreaterThan(0.9)
})
