// Signs transactions ahead, then hands them in over kept-alive connections as fast as they are
// taken. Thread: a process of its own.
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { decodeKey, encodeBase58 } from '../../../src/chain/solana/base58.ts'
import { Keypair } from '../../../src/chain/solana/keypair.ts'
import { buildTransaction, transferInstruction } from '../../../src/devnode/build.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { LatencyHistogram } from '../../lib/histogram.ts'
import { jsonPost, type LoadAnswer } from '../../lib/http-load.ts'

export interface SendLoad {
  readonly host: string
  readonly port: number
  readonly token: string
  readonly connections: number
  readonly seconds: number
  /** Signed before the clock starts; what is left when it ends is not sent. */
  readonly transactions: number
}

const payerCount = 32
const payerLamports = 100_000_000_000n

serveBench({ send })

async function send(load: SendLoad): Promise<LoadAnswer> {
  const payers = Array.from({ length: payerCount }, () => new Keypair(randomBytes(32)))
  for (const { publicKey } of payers)
    await ask(load, 'requestAirdrop', [encodeBase58(publicKey), Number(payerLamports)])
  const requests = await signAhead(load, payers)
  const histogram = new LatencyHistogram()
  const state = { next: 0, wrong: 0, endsMs: performance.now() + load.seconds * 1000 }
  const began = performance.now()
  await Promise.all(
    Array.from({ length: load.connections }, () => run(load, requests, state, histogram)),
  )
  const took = (performance.now() - began) / 1000
  const { total: answers } = histogram
  return { ops: answers / took, ...histogram.summary(), answers, wrong: state.wrong }
}

async function signAhead(load: SendLoad, payers: readonly Keypair[]): Promise<string[]> {
  const config = { commitment: 'processed' }
  const latest = (await ask(load, 'getLatestBlockhash', [config])) as {
    value: { blockhash: string }
  }
  const blockhash = decodeKey(latest.value.blockhash)!
  return Array.from({ length: load.transactions }, (_, index) => {
    const from = payers[index % payerCount]!
    const to = payers[(index + 1) % payerCount]!
    const bytes = buildTransaction({
      signers: [from],
      blockhash,
      // Another amount each time: equal transactions would count as repetitions.
      instructions: [transferInstruction(from.publicKey, to.publicKey, BigInt(index + 1))],
    })
    const text = Buffer.from(bytes).toString('base64')
    const options = { encoding: 'base64', preflightCommitment: 'processed' }
    return requestText(load, 'sendTransaction', [text, options])
  })
}

function run(
  { host, port }: SendLoad,
  requests: readonly string[],
  state: { next: number; wrong: number; readonly endsMs: number },
  histogram: LatencyHistogram,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host)
    let text = ''
    let sentMs = 0
    const sendNext = () => {
      const request = requests[state.next++]
      if (request === undefined || (histogram.total > 0 && performance.now() > state.endsMs)) {
        socket.destroy()
        return resolve()
      }
      text = ''
      sentMs = performance.now()
      socket.write(request)
    }
    socket.once('connect', sendNext)
    socket.once('error', reject)
    socket.on('data', (data) => {
      text += data.toString('latin1')
      if (!text.endsWith('}\n')) return
      histogram.recordNs((performance.now() - sentMs) * 1e6)
      if (!text.includes('"result":"')) state.wrong += 1
      sendNext()
    })
  })
}

async function ask(load: SendLoad, method: string, params: unknown[]): Promise<unknown> {
  const response = await fetch(`http://${load.host}:${load.port}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-token': load.token },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown }
  if (error !== undefined) throw new Error(JSON.stringify(error))
  return result
}

function requestText({ token }: SendLoad, method: string, params: unknown[]): string {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  return jsonPost(token, body)
}
