import { describe, expect, test } from 'vitest'
import { namesNode } from '../../../../../src/chain/upstream/proxy/node-secrets.ts'
import type { UpstreamNode } from '../../../../../src/chain/upstream/upstream-node.ts'

function nodeAt(rpc: string): UpstreamNode {
  // Reason for the cast: nothing else of a node is looked at.
  return {
    addresses: { rpc, ws: '', grpc: '', xToken: 'token-of-node' },
  } as unknown as UpstreamNode
}

describe("a node's words", () => {
  test('tell where it stands when they hold its host, its key or its token', () => {
    const node = nodeAt(
      'https://me:pass1234@rpc.example.com:8443/v2/k3y0f-provider?api-key=abcd1234',
    )
    for (const secret of [
      'token-of-node',
      'rpc.example.com:8443',
      'rpc.example.com',
      'k3y0f-provider',
      'abcd1234',
      'pass1234',
    ])
      expect(namesNode(node, `cannot serve ${secret}.`), secret).toBe(true)
  })

  test('are passed on when they only share a common word with its address', () => {
    const node = nodeAt('http://node:8899/mainnet-beta')
    expect(namesNode(node, 'the node of mainnet-beta is behind')).toBe(false)
    expect(namesNode(node, 'at node:8899')).toBe(true)
  })
})
