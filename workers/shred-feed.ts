// Worker thread of the embedded shred feed: makes shreds from entry batches and sends them to the
// ingest port.
import { parentPort, workerData } from 'node:worker_threads'
import { ShredMaker } from '../src/devnode/shred-maker.ts'
import { signerOf } from '../src/solana/shred-signature.ts'
import { UdpSocket } from '../src/transport/udp.ts'

const { host, port, seed, version } = workerData as {
  host: string
  port: number
  seed: Uint8Array
  version: number
}
const maker = new ShredMaker({ version, sign: signerOf(seed) })
const isV6 = host.includes(':')
const local = isV6 ? '::1' : '127.0.0.1'
// The ingest port is on this machine; a wildcard address is reached over loopback.
const target = host === '0.0.0.0' || host === '::' ? local : host
const socket = await UdpSocket.open({ host: target, port: 0 })

parentPort!.on(
  'message',
  (message: 'stop' | { slot: number; parent: number; batch: Uint8Array }) => {
    if (message === 'stop') {
      socket.close()
      parentPort!.close()
      return
    }
    maker.startSlot(message)
    for (const shred of maker.make(message.batch, { isLastInSlot: true, tick: 63 }))
      socket.sendTo(shred, target, port)
  },
)
parentPort!.postMessage('ready')
