// Transactions without a tip per second through the TPU Sender's endpoint, which anybody may send
// at any rate, beside the native server reading the same body and answering a constant. Counted per
// second of processor time that the server used, which other programs disturb less.
// Thread: main of the bench process; servers and client are processes of their own.

import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { httpLoad, perCpuSecond, verifyLoad } from '../lib/http-load.ts'
import { untippedTransaction } from '../lib/untipped-transaction.ts'

const connections = 64
const warmUpSeconds = 0.5
const expected = 'TIP_MISSING'
const text = Buffer.from(untippedTransaction()).toString('base64')
const params = `["${text}",{"encoding":"base64"}]`
const call = `{"jsonrpc":"2.0","id":1,"method":"sendTransaction","params":${params}}`
/** The answer of our endpoint, so that both send as many bytes. */
const answer =
  '{"jsonrpc":"2.0","error":{"code":-32602,"message":"Transaction rejected: no top-level System ' +
  'Program transfer to a tip account","data":{"reason":"TIP_MISSING","requiredLamports":1000000,' +
  '"foundLamports":0}},"id":1}'

const bare = 'native server, constant answer'
const jsonRpc = 'rejected over JSON-RPC'
const plain = 'rejected as text'

export const bench: Bench = {
  name: 'tpu',
  question: 'How many transactions without a tip does a second of processor time turn away?',
  cores: 2,
  baseline: contender(bare, 'bare', request('/', 'application/json', call)),
  candidates: [
    contender(jsonRpc, 'ours', request('/', 'application/json', call)),
    contender(plain, 'ours', request('/api/v1/transactions', 'text/plain', text)),
  ],
  goals: [
    { contender: jsonRpc, to: bare, figure: 'opsPerSecond', atLeast: 0.75 },
    { contender: plain, to: bare, figure: 'opsPerSecond', atLeast: 0.75 },
  ],
  verify: verifyLoad,
}

function contender(name: string, kind: 'ours' | 'bare', request: string): Contender {
  let child: BenchProcess | null = null
  let port = 0
  const drive = (seconds: number) =>
    httpLoad({ host: '127.0.0.1', port, seconds, connections, request, expected })
  return {
    name,
    missing: ({ target }) => (target === undefined ? undefined : 'a deployment is measured'),
    async prepare({ smoke }) {
      child = startProcess(new URL('./clients/tpu-servers.js', import.meta.url))
      port = await child.call<number>(kind, answer)
      if (smoke !== true) await drive(warmUpSeconds)
    },
    async run({ seconds }) {
      return perCpuSecond(
        () => child!.call('cpuSeconds'),
        () => drive(seconds),
      )
    },
    async close() {
      await child?.stop()
    },
  }
}

function request(path: string, type: string, body: string): string {
  const lines = [
    `POST ${path} HTTP/1.1`,
    'host: 127.0.0.1',
    `content-type: ${type}`,
    `content-length: ${body.length}`,
  ]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}
