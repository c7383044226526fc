// Worker thread of the devnode's shred feed: makes shreds from entry batches, signs them with the
// node's identity and sends them to the target.
import { parentPort, workerData } from 'node:worker_threads'
import { UdpSocket } from '../src/base/transport/udp.ts'
import { identityOf } from '../src/devnode/genesis.ts'
import { ShredMaker, type ShredTarget, type SlotBatch } from '../src/devnode/shred-feed.ts'

const { host, port, version, seed } = workerData as ShredTarget & { readonly seed: Uint8Array }
const identity = identityOf(seed)
const maker = new ShredMaker({ version, sign: (root) => identity.sign(root) })
const isV6 = host.includes(':')
const local = isV6 ? '::1' : '127.0.0.1'
// A wildcard address is one of this machine: it is reached over loopback.
const target = host === '0.0.0.0' || host === '::' ? local : host
const socket = await UdpSocket.open({ host: isV6 ? '::' : '0.0.0.0', port: 0 })

parentPort!.on('message', (message: 'stop' | SlotBatch) => {
  if (message === 'stop') {
    socket.close()
    parentPort!.close()
    return
  }
  maker.startSlot(message)
  for (const shred of maker.make(message.batch, { isLastInSlot: true, tick: 63 }))
    socket.sendTo(shred, target, port)
})
parentPort!.postMessage('ready')
