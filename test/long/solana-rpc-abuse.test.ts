// Broken transactions by the thousand and a killed chain process, through the rpc endpoint.
import { randomInt } from 'node:crypto'
import { Keypair } from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sluice } from '../testkit/server.ts'
import { type RpcAnswer, SolanaNode, transfer } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

let node: SolanaNode
beforeAll(async () => {
  node = await SolanaNode.start('--chain.traffic=20')
})
afterAll(() => node?.dispose())

const perBatch = 64

/** One batch of calls of one method, each with other bytes. */
async function batch(method: string, all: readonly Uint8Array[]): Promise<RpcAnswer[]> {
  const config = { encoding: 'base64', preflightCommitment: 'processed' }
  const more = method === 'simulateTransaction' ? { ...config, sigVerify: true } : config
  const calls = all.map((bytes, id) => ({
    jsonrpc: '2.0',
    id,
    method,
    params: [Buffer.from(bytes).toString('base64'), more],
  }))
  const response = await fetch(node.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-token': node.token },
    body: JSON.stringify(calls),
  })
  return (await response.json()) as RpcAnswer[]
}

async function chainPid(): Promise<number> {
  const { stdout } = await sluice(node.server.data, 'status', '--output=json')
  return (JSON.parse(stdout) as { chain: { pid: number } }).chain.pid
}

function mutation(bytes: Uint8Array): Uint8Array {
  const mutated = Uint8Array.from(bytes)
  for (let turns = randomInt(3); turns >= 0; turns--)
    mutated[randomInt(mutated.length)]! ^= randomInt(1, 256)
  return Buffer.compare(mutated, bytes) === 0 ? mutation(bytes) : mutated
}

/** A simulation reports the signature that does not fit as its outcome, as agave does. */
function isRefused({ error, result }: RpcAnswer): boolean {
  return error !== undefined || result.value?.err === 'SignatureFailure'
}

describe('the rpc endpoint under abuse', () => {
  it('answers every truncation and 10,000 mutations with an error and keeps running', async () => {
    const from = await node.funded()
    const bytes = await node.signed([transfer(from, Keypair.generate().publicKey, 1e6)], [from])
    const pid = await chainPid()
    const broken = [
      ...Array.from(bytes, (_, length) => bytes.subarray(0, length)),
      ...Array.from({ length: 10_000 }, () => mutation(bytes)),
    ]
    for (const method of ['sendTransaction', 'simulateTransaction'])
      for (let at = 0; at < broken.length; at += perBatch) {
        const answers = await batch(method, broken.slice(at, at + perBatch))
        expect(answers.filter((answer) => !isRefused(answer))).toEqual([])
      }
    expect(await chainPid()).toBe(pid)
    expect((await node.call('getHealth')).result).toBe('ok')
  })

  it('answers -32005 while the killed devnode is restarted, and loses nothing finalized', async () => {
    const from = await node.funded()
    const kept = Keypair.generate().publicKey
    const signature = await node.land([transfer(from, kept, 5_000_000)], [from])
    await node.reached(signature, 'finalized')
    const pid = await chainPid()
    process.kill(pid, 'SIGKILL')
    const codes = new Set<number | undefined>()
    await until(async () => {
      // Always a node's: blockhashes are answered from the stream, which has them a little longer.
      const info = await node.call('getEpochInfo', { commitment: 'processed' })
      if (info.error !== undefined) codes.add(info.error.code)
      return info.result !== undefined && (await chainPid()) !== pid
    }, 'the devnode to be restarted')
    expect([...codes]).toEqual([-32005])
    const to = Keypair.generate().publicKey
    const bytes = await node.signed([transfer(from, to, 2_000_000)], [from])
    const [answer] = await batch('sendTransaction', [bytes])
    expect(answer?.error).toBeUndefined()
    expect(await node.connection.getBalance(kept, 'finalized')).toBe(5_000_000)
    expect(await node.connection.getBalance(to, 'processed')).toBe(2_000_000)
  })
})
