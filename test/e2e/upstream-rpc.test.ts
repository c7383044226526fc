// Unmodified web3.js and kit, and every method's shape and errors, against a server in front of
// another one, and in front of three: nothing that a customer does over JSON-RPC is different.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SolanaNode } from '../testkit/solana-node.ts'
import { describeRpcErrors } from '../testkit/solana-rpc-errors.ts'
import { describeRpcShapes } from '../testkit/solana-rpc-golden.ts'
import { describeKit } from '../testkit/solana-rpc-kit.ts'
import { describeWeb3 } from '../testkit/solana-rpc-web3.ts'

/** What no customer of the chain sees, and what each server spends most of its time on. */
const withoutMetrics = '--metrics.enabled=false'

/** The node for tests that dispose of the one that they get. */
function lent(node: SolanaNode): SolanaNode {
  return Object.create(node, { dispose: { value: () => Promise.resolve() } })
}

// One server after another, and no more of them than are needed: each start takes a whole core for
// a moment.
describe('in front of one node', () => {
  // The shapes are those of a chain on which only the test does something.
  let quiet: SolanaNode
  let front: SolanaNode
  beforeAll(async () => {
    quiet = await SolanaNode.start('--chain.traffic=0', withoutMetrics)
    front = await SolanaNode.before([quiet], withoutMetrics)
  })
  afterAll(async () => {
    for (const node of [front, quiet]) await node?.dispose()
  })

  describe('errors', () => describeRpcErrors(async () => lent(front)))
  describe('shapes', () => describeRpcShapes(async () => lent(front)))
})

describe('in front of three, which are in front of one chain', () => {
  let chain: SolanaNode
  let front: SolanaNode
  const nodes: SolanaNode[] = []
  beforeAll(async () => {
    chain = await SolanaNode.start('--chain.traffic=20', withoutMetrics)
    for (let number = 1; number <= 3; number++)
      nodes.push(await SolanaNode.before([chain], withoutMetrics))
    front = await SolanaNode.before(nodes)
  })
  afterAll(async () => {
    for (const node of [front, ...nodes, chain]) await node?.dispose()
  })

  it('counts what the proxy does, and names no node by its address', async () => {
    await front.call('getGenesisHash')
    await front.call('getGenesisHash')
    const text = await (await fetch(`${front.server.url('metrics')}/metrics`)).text()
    expect(text).toMatch(/^sluice_upstream_cache_hits_total 1$/m)
    expect(text).toMatch(/^sluice_upstream_failovers_total \d+$/m)
    for (const { token, url } of nodes)
      for (const secret of [token, new URL(url).host]) {
        expect(text).not.toContain(secret)
        expect(front.server.stderr()).not.toContain(secret)
      }
  })

  describe('kit', () => describeKit(async () => lent(front)))
  describe('web3.js', () => describeWeb3(async () => lent(front)))
})
