// The servers of the benches rpc-endpoint and stream-reads, one per process: our endpoint, the same
// with answers from a stream, the native server answering a constant, and node:http with our
// handler. Thread: a process of its own.
import { systemClock as clock } from '../../../src/base/clock.ts'
import { silentLog as log } from '../../../src/base/telemetry/log.ts'
import { Meters } from '../../../src/base/telemetry/meters.ts'
import { encodeBase58 } from '../../../src/chain/solana/base58.ts'
import { StreamAnswers } from '../../../src/streams/answers/stream-answers.ts'
import { singleNodeSet } from '../../../src/upstream/config.ts'
import { Upstreams } from '../../../src/upstream/node-pool/upstreams.ts'
import { declareProxyMeters } from '../../../src/upstream/proxy/method-policy.ts'
import { RpcProxy } from '../../../src/upstream/proxy/rpc-proxy.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { hotAccount, StreamChain, streamDeps } from '../../../test/testkit/stream-chain.ts'
import { usedSeconds } from '../../lib/processor-time.ts'
import { startConstant } from './constant-server.ts'
import { answering, type Started, startEndpoint, startNodeHttp } from './rpc-parts.ts'

const SLOT_MS = 400
const nowhere = 'http://127.0.0.1:9'
const answer = '{"jsonrpc":"2.0","result":"ok","id":1}\n'

serveBench({
  ours: () => startEndpoint(answering()),
  node: () => startNodeHttp(answering()),
  bare: async (): Promise<Started> => ({ port: await startConstant(answer), token: 'none' }),
  stream: startStream,
  cpuSeconds: usedSeconds,
})

/** Our endpoint over a stream whose slots come and go, with one account that each of them writes. */
async function startStream(): Promise<Started> {
  const chain = new StreamChain()
  const rest = { executable: false, rentEpoch: 0n, data: new Uint8Array(165) }
  const read = async (pubkey: Uint8Array, slot: number) => ({
    slot,
    account: { pubkey, lamports: 1n, owner: pubkey, ...rest },
  })
  const accounts = { bytesMax: 1e6, read }
  const answers = new StreamAnswers(chain.hub, { ...streamDeps, accounts })
  const params = [encodeBase58(hotAccount), { commitment: 'confirmed' }]
  const call = { method: 'getBalance', params, paramsText: JSON.stringify(params), id: '1' }
  let slot = 100
  const grow = () => {
    slot++
    chain.grow(slot, slot, { writes: [{ pubkey: hotAccount, lamports: slot, data: rest.data }] })
  }
  grow()
  while (answers.answer(call) === null) await new Promise((resolve) => setImmediate(resolve))
  setInterval(grow, SLOT_MS)
  const upstreams = new Upstreams({ default: singleNodeSet({ rpc: nowhere }) }, { clock, log })
  const tally = declareProxyMeters(new Meters())
  const answersOf = () => answers
  return startEndpoint(new RpcProxy({ upstreams, tally, version: '0', clock, answersOf }))
}
