// A gateway in front of a cluster whose nodes replace banks, fork, die, lag and skip: what it says is
// confirmed is the chain, on every product. Ten seeds: of the day's faults, under Alpenglow, and
// through the migration, which goes back to its genesis block and uses slots again.
import { expect, it } from 'vitest'
import { ClusterPlan, usualFaults } from '../../src/devnode/cluster/plan.ts'
import { runBox } from '../testkit/cluster-box.ts'
import { migrationSlots } from '../testkit/seeded-cluster.ts'
import { isSlice } from '../testkit/slice.ts'

const ways = {
  'the usual faults': [],
  'the faults under Alpenglow': ['--alpenglow'],
  'the faults of a migration': [`--faults=${[...usualFaults, 'migration'].join()}`],
}
const names = Object.keys(ways) as (keyof typeof ways)[]
const runs = Array.from({ length: 10 }, (_, index) => [names[index % 3]!, index + 1] as const)

it.each(isSlice ? runs.slice(2, 3) : runs)(
  'confirms exactly the chain with %s of seed %i',
  async (name, seed) => {
    const isMigration = name === names[2]
    // The first slots of the chain are those before the gateway.
    const { chain, read, retracted } = await runBox(seed, isMigration ? 110 : 60, ...ways[name])
    expect(chain.length).toBeGreaterThan(40)
    for (const [product, blocks] of Object.entries(read))
      expect(blocks, `${product}; replay: ${ways[name].join(' ')} --seed=${seed}`).toEqual(chain)
    const { from, to } = migrationSlots
    for (let slot = from; isMigration && slot <= to; slot++)
      expect(retracted).toContain(`${slot} migration`)
  },
)

it.skipIf(isSlice)('confirms exactly the chain where every node replaced a bank', async () => {
  const seed = 3
  const { chain, read } = await runBox(seed, 30)
  const plan = new ClusterPlan({ seed, nodes: 4, faults: usualFaults, isAlpenglow: false })
  // Each node replaced a bank of these slots, so the one that was followed did.
  for (let node = 0; node < 4; node++)
    expect(chain.some(({ slot }) => plan.voidBank(slot, node) !== null)).toBe(true)
  expect(chain.some(({ signatures }) => signatures.length > 0)).toBe(true)
  for (const [product, blocks] of Object.entries(read)) expect(blocks, product).toEqual(chain)
})
