// A gateway that merges the geyser streams of two nodes which are not on one chain.
import { afterEach, expect, it } from 'vitest'
import { nodeSection, RelayStage } from '../testkit/geyser-relay.ts'
import { GrpcStage } from '../testkit/grpc-stage.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close()
})

it('takes a node out that confirms another block than the published one', async () => {
  const nodes = [await GrpcStage.open(), await GrpcStage.open()] as const
  open.push(...nodes)
  const sections = nodes.map((node) =>
    nodeSection(`http://${node.target}`, node.provision({ plan: 'unlimited' }).token),
  )
  const relay = await RelayStage.open(sections, { merge: 2 })
  open.push(relay)
  await relay.connected(2)
  for (const node of nodes)
    await until(async () => (await node.meter('sluice_grpc_groups')) > 0, 'its filters')
  const [followed, other] = [5, 6].map((seed) => {
    const chain = new SyntheticSolana({ seed })
    return Array.from({ length: 4 }, () => chain.next()).flat()
  })
  nodes[0].publish(followed!)
  await relay.caughtUp(followed!)
  nodes[1].publish(other!)
  await until(() => relay.states[1]!.state === 'distrusted', 'the other node to leave')
  expect(relay.states[0]!.state).toBe('up')
  expect(relay.states[1]!.reason).toContain('another block than default/1; neither is proven wrong')
})
