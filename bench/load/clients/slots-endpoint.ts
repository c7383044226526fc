// The websocket endpoint on a chain of its own, whose slots have 1,000 transactions, and a client
// that reads them all. Thread: a process of its own for each.
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { slotUpdate, transactionUpdate } from '../../../src/chain/solana/received-batch.ts'
import { type SlotStatus, slotStatus } from '../../../src/chain/solana/updates.ts'
import { publishUpdate } from '../../../src/streams/geyser/hub.ts'
import { Bundle } from '../../../test/testkit/bundle.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { idleChain } from '../../../test/testkit/pubsub-chain.ts'
import { transactionContent } from './grpc-message.ts'

export interface SlotsEndpoint {
  readonly url: string
  readonly token: string
}

const slotMs = 400
const partsOfSlot = 20
const transactionsOfPart = 50
/** Slots after which a slot is confirmed, finalized, and in which part of them. */
const [confirmedAfter, finalizedAfter] = [2, 32]
const [confirmedAt, finalizedAt] = [5, 15]
/** Of the next slot, while what was confirmed is encoded. */
const shredAt = confirmedAt + 1

let socket: WebSocket | null = null
let count = 0

serveBench({
  async open(): Promise<SlotsEndpoint> {
    const chain = idleChain()
    const bundle = new Bundle()
    process.once('exit', () => rmSync(bundle.folder, { recursive: true, force: true }))
    const { port } = await bundle.openWebsocket({ chainOf: () => chain })
    void produce(chain.hub)
    return { url: `ws://127.0.0.1:${port}`, token: bundle.issue().token }
  },
  async read({ url, token }: SlotsEndpoint) {
    socket = new WebSocket(url, { headers: { 'x-token': token } })
    await once(socket, 'open')
    const view = { commitment: 'confirmed', encoding: 'json', transactionDetails: 'full' }
    const options = { ...view, maxSupportedTransactionVersion: 0 }
    const call = { jsonrpc: '2.0', id: 1, method: 'transactionSubscribe', params: [{}, options] }
    socket.send(JSON.stringify(call))
    await once(socket, 'message')
    socket.on('message', () => count++)
  },
  count: () => count,
  leave() {
    socket?.terminate()
    count = 0
  },
})

/**
 * As a node does: transactions over the time of the slot, each status at a time of its own. A
 * status counts from when it is due, so that one that this thread is too busy for is late.
 */
async function produce(hub: ReturnType<typeof idleChain>['hub']): Promise<never> {
  let dueMs = performance.now()
  for (let slot = 100; ; slot++) {
    const reach = (at: number, status: SlotStatus) => {
      const moment = { slot: at, createdAtMs: performance.timeOrigin + dueMs }
      publishUpdate(hub, slotUpdate(moment, { parent: at - 1, status }))
    }
    for (let part = 0; part < partsOfSlot; part++, dueMs += slotMs / partsOfSlot) {
      await sleep(Math.max(0, dueMs - performance.now()))
      if (part === 0) reach(slot, slotStatus.createdBank)
      if (part === confirmedAt) reach(slot - confirmedAfter, slotStatus.confirmed)
      if (part === shredAt) reach(slot + 1, slotStatus.firstShredReceived)
      if (part === finalizedAt) reach(slot - finalizedAfter, slotStatus.finalized)
      for (let number = 0; number < transactionsOfPart; number++) {
        const index = part * transactionsOfPart + number
        const moment = { slot, createdAtMs: Date.now() }
        publishUpdate(hub, transactionUpdate(moment, { ...transactionContent, index }))
      }
    }
    reach(slot, slotStatus.processed)
  }
}
