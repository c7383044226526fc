import { describe, expect, test } from 'vitest'
import { SetGenesis } from '../../../../src/upstream/node-pool/upstream-set.ts'

interface Report {
  genesis: string | null
  isReachable: boolean
  wasProbed: boolean
}

const node = (genesis: string | null, wasProbed = true): Report => ({
  genesis,
  isReachable: true,
  wasProbed,
})

const foreignOf = (genesis: SetGenesis<Report>, nodes: Report[]) => {
  genesis.update(nodes)
  return nodes.map((one) => genesis.isForeign(one))
}

describe('the genesis hash of a set', () => {
  test('is that of most nodes, or of the first one, whoever answers first', () => {
    expect(foreignOf(new SetGenesis(''), [node('a'), node('b')])).toEqual([false, true])
    const nodes = [node('a'), node('b'), node('b')]
    expect(foreignOf(new SetGenesis(''), nodes)).toEqual([true, false, false])
    const late = [node(null, false), node('b')]
    const genesis = new SetGenesis<Report>('')
    expect(foreignOf(genesis, late)).toEqual([false, false])
    Object.assign(late[0]!, node('a'))
    expect(foreignOf(genesis, late)).toEqual([false, true])
    expect(genesis.restarts).toBe(0)
  })

  test('does not concern nodes that report none', () => {
    const genesis = new SetGenesis<Report>('')
    expect(foreignOf(genesis, [node(null), node(null)])).toEqual([false, false])
    expect(foreignOf(genesis, [node('a'), node(null)])).toEqual([false, false])
  })

  test('changes when all reachable nodes have another one, not before', () => {
    const nodes = [node('a'), node('a')]
    const genesis = new SetGenesis<Report>('')
    genesis.update(nodes)
    nodes[0]!.genesis = 'b'
    expect(foreignOf(genesis, nodes)).toEqual([true, false])
    nodes[1]!.isReachable = false
    expect(foreignOf(genesis, nodes)).toEqual([false, true])
    expect(genesis.restarts).toBe(1)
    nodes[1]!.isReachable = true
    expect(foreignOf(genesis, nodes)).toEqual([false, true])
  })

  test('never becomes that of a node which was on another chain from the start', () => {
    const nodes = [node('a'), node('b')]
    const genesis = new SetGenesis<Report>('')
    genesis.update(nodes)
    nodes[0]!.isReachable = false
    expect(foreignOf(genesis, nodes)).toEqual([false, true])
    expect(genesis.restarts).toBe(0)
  })

  test('stays what is configured', () => {
    const genesis = new SetGenesis<Report>('a')
    expect(foreignOf(genesis, [node('b'), node('b')])).toEqual([true, true])
    expect(foreignOf(genesis, [node('a'), node(null)])).toEqual([false, false])
    expect(genesis.restarts).toBe(0)
  })
})
