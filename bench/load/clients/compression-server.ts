// The gRPC endpoint with updates that resemble mainnet's, for the bench of compression.
// Thread: a process of its own. Sends as fast as the readers take it.
import { randomBytes } from 'node:crypto'
import { accountUpdate } from '../../../src/chain/solana/received-batch.ts'
import { Heads, openSolanaHub, publishUpdate } from '../../../src/streams/geyser/hub.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { usedSeconds } from '../../lib/processor-time.ts'
import { openGrpcEndpoint } from './grpc-endpoint.ts'

/** What the process has done so far. */
export interface Spent {
  readonly updates: number
  readonly cpuSeconds: number
}

const roundUpdates = 64
const waitingBytesMax = 512 * 1024
const tokenBytes = 165
const poolBytes = 1_544
let updates = 0

serveBench({ open, spent })

async function open(): Promise<{ port: number; token: string }> {
  const hub = openSolanaHub({ replaySlots: 1, replayBytesMax: 1 })
  const endpoint = await openGrpcEndpoint({
    hub,
    heads: new Heads(hub),
    isUp: () => true,
    watch: () => () => {},
    solanaVersion: () => '',
  })
  let slot = 20_000
  const flood = () => {
    if (endpoint.streams() === 0) return void setTimeout(flood, 5)
    if (endpoint.meters.backlog.bytes() < waitingBytesMax) {
      const moment = { slot: slot++, createdAtMs: Date.now() }
      for (let index = 0; index < roundUpdates; index++)
        publishUpdate(hub, accountUpdate(moment, contents[(slot + index) % contents.length]!))
      updates += roundUpdates
      hub.abandon(moment.slot)
    }
    setImmediate(flood)
  }
  flood()
  return { port: endpoint.port, token: endpoint.token }
}

function spent(): Spent {
  return { updates, cpuSeconds: usedSeconds() }
}

const keys = Array.from({ length: 16 }, () => randomBytes(32))

/** Half are token accounts, half the larger accounts of a program: keys, numbers and zeros. */
const contents = Array.from({ length: 256 }, (_, index) => {
  const data = Buffer.alloc(index % 2 === 0 ? tokenBytes : poolBytes)
  for (let at = 0; at + 32 <= data.length; at += 96)
    keys[(at + index) % keys.length]!.copy(data, at)
  for (let at = 64; at + 8 <= data.length; at += 96) randomBytes(5).copy(data, at)
  return {
    pubkey: randomBytes(32),
    lamports: 2_039_280n,
    owner: keys[index % 2]!,
    executable: false,
    rentEpoch: 2n ** 64n - 1n,
    data,
    writeVersion: BigInt(index),
    txnSignature: randomBytes(64),
  }
})
