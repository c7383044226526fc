// Ten seeds of a cluster behind a gateway: of the day's faults, under Alpenglow, and through the
// migration, which goes back to its genesis block and uses slots again.
import { expect, it } from 'vitest'
import { usualFaults } from '../../src/devnode/cluster/plan.ts'
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
