// Worker thread of the devnode's shred feed: makes shreds from entry batches, signs them with the
// node's identity and sends them to the target.
import { parentPort, workerData } from 'node:worker_threads'
import { UdpSocket } from '../src/base/transport/udp.ts'
import { identityOf } from '../src/devnode/genesis.ts'
import { ShredMaker, type ShredTarget, type SlotBatches } from '../src/devnode/shred-feed.ts'

const { host, port, version, seed } = workerData as ShredTarget & { readonly seed: Uint8Array }
const identities = [identityOf(seed)]
let leader = 0
const sign = (root: Uint8Array) => {
  identities[leader] ??= identityOf(seed, leader)
  return identities[leader]!.sign(root)
}
const maker = new ShredMaker({ version, sign })
const isV6 = host.includes(':')
const local = isV6 ? '::1' : '127.0.0.1'
// A wildcard address is one of this machine: it is reached over loopback.
const target = host === '0.0.0.0' || host === '::' ? local : host
const socket = await UdpSocket.open({ host: isV6 ? '::' : '0.0.0.0', port: 0 })

parentPort!.on('message', (message: 'stop' | SlotBatches) => {
  if (message === 'stop') {
    socket.close()
    parentPort!.close()
    return
  }
  maker.startSlot(message)
  leader = message.leader
  const last = message.batches.length - 1
  for (const [index, batch] of message.batches.entries())
    for (const shred of maker.make(batch, { isLastInSlot: index === last, tick: 63 }))
      socket.sendTo(shred, target, port)
})
parentPort!.postMessage('ready')
