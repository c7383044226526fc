// A gateway in front of a cluster whose nodes replace banks, fork, die, lag and skip: what it says is
// confirmed is the chain, on every product.
import { expect, it } from 'vitest'
import { ClusterPlan, usualFaults } from '../../src/devnode/cluster/plan.ts'
import { runBox } from '../testkit/cluster-box.ts'

it('confirms exactly the chain on grpc, pubsub, rpc and in the index', async () => {
  const seed = 3
  const { chain, read } = await runBox(seed, 30)
  const plan = new ClusterPlan({ seed, nodes: 4, faults: usualFaults, isAlpenglow: false })
  // Each node replaced a bank of these slots, so the one that was followed did.
  for (let node = 0; node < 4; node++)
    expect(chain.some(({ slot }) => plan.voidBank(slot, node) !== null)).toBe(true)
  expect(chain.some(({ signatures }) => signatures.length > 0)).toBe(true)
  for (const [product, blocks] of Object.entries(read)) expect(blocks, product).toEqual(chain)
})
