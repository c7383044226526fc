// Hot reads that the stream answers, per second of processor time: token, budget, slots seen and
// the answer itself, beside the native server answering a constant.
// Thread: main of the bench process; servers and client are processes of their own.
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { hotAccount } from '../../test/testkit/stream-chain.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { verifyLoad } from '../lib/http-load.ts'
import { bare, serverContender } from './rpc-endpoint.ts'

const commitment = { commitment: 'confirmed' }
const key = encodeBase58(hotAccount)
const reads: Readonly<Record<string, readonly unknown[]>> = {
  getSlot: [commitment],
  getBalance: [key, commitment],
  getAccountInfo: [key, { ...commitment, encoding: 'base64' }],
}

export function streamContenders(by: 'cpu' | 'half'): Contender[] {
  return Object.entries(reads).map(([method, params]) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    return serverContender(method, 'stream', by, { body, expected: '"result":' })
  })
}

export const bench: Bench = {
  name: 'stream-reads',
  question: 'How many hot reads does the stream answer per second of one core?',
  cores: 2,
  baseline: serverContender(bare, 'bare', 'cpu'),
  candidates: streamContenders('cpu'),
  goals: Object.keys(reads).map((contender) => ({
    contender,
    to: bare,
    figure: 'opsPerSecond',
    atLeast: 0.6,
  })),
  smoke: Object.keys(reads),
  verify: verifyLoad,
}
