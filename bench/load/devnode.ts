// Transactions that a devnode executes and confirms, sent over its RPC endpoint as a client would,
// beside plain litesvm in one process. Thread: main of the bench process; the devnode is processes
// of its own.
//
//   signed beforehand -> sendTransaction, 32 connections -> getSignatureStatuses: all confirmed
import { decodeBase58, encodeBase58 } from '../../src/chain/solana/base58.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { DevnodeProcess } from '../lib/devnode-process.ts'
import { processorSeconds } from '../lib/processor-time.ts'
import { plainVm, transfers, verifyLanded, wallets } from '../lib/transfers.ts'

const perSecond = 1_500
const lanes = 32
const byClock = 'devnode, confirmed per second'
const byCore = 'devnode, confirmed per second of a core'

export const bench: Bench = {
  name: 'devnode',
  question: 'How many transactions a second does a devnode take, execute and confirm?',
  cores: 2,
  baseline: plainVm,
  candidates: [devnode(byClock, 'clock'), devnode(byCore, 'cores')],
  smoke: [plainVm.name, byClock],
  verify: verifyLanded,
}

function devnode(name: string, by: 'clock' | 'cores'): Contender {
  let node: DevnodeProcess | null = null
  return {
    name,
    missing: ({ target }) => (target === undefined ? undefined : 'a deployment is measured'),
    async prepare() {
      node = await DevnodeProcess.start()
      const funded = wallets.map(({ publicKey }) =>
        node!.call<string>('requestAirdrop', encodeBase58(publicKey), 1_000_000_000_000),
      )
      await node.confirmed(await Promise.all(funded))
    },
    async run({ seconds }) {
      const { value } = await node!.call<{ value: { blockhash: string } }>('getLatestBlockhash')
      const prepared = transfers(decodeBase58(value.blockhash)!, seconds * perSecond)
      const texts = prepared.map((bytes) => Buffer.from(bytes).toString('base64'))
      const signatures: string[] = []
      const usedBefore = processorSeconds(node!.pid)
      const beganMs = performance.now()
      const lane = async () => {
        for (let text = texts.pop(); text !== undefined; text = texts.pop())
          signatures.push(await node!.call('sendTransaction', text, options))
      }
      await Promise.all(Array.from({ length: lanes }, lane))
      const landed = await node!.confirmed(signatures)
      const took = (performance.now() - beganMs) / 1000
      const used = processorSeconds(node!.pid) - usedBefore
      const opsPerSecond = landed / (by === 'clock' ? took : used)
      return { opsPerSecond, evidence: { asked: prepared.length, landed } }
    },
    async close() {
      await node?.stop()
    },
  }
}

const options = { encoding: 'base64', skipPreflight: true }
