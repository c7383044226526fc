// Batches of datagrams where the kernel refuses GSO on the route of one target.
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { afterEach, expect, it } from 'vitest'
import { parseAddress } from '../../src/base/cidr.ts'
import { type Libc, loadLibc, openSocket, pinned } from '../../src/base/transport/udp-batch.ts'
import { BatchSender, ShredVectors } from '../../src/base/transport/udp-send.ts'
import { asTexts } from '../testkit/shredstream.ts'
import { until } from '../testkit/until.ts'

const libc = await loadLibc()
const host = '127.0.0.1'
/** EIO: what Linux returns for UDP_SEGMENT through IPsec. */
const inputOutput = 5
const bytes = [1203, 1228] as const
const sockets: Socket[] = []
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close()
})

async function receiver() {
  const socket = createSocket('udp4')
  sockets.push(socket)
  const packets: Buffer[] = []
  socket.on('message', (packet) => packets.push(packet))
  socket.bind(0, host)
  await once(socket, 'listening')
  return { packets, port: socket.address().port }
}

/** Refuses the batch of the second of `targets`, as its route would. */
function refusing(real: Libc, targets: number): Libc {
  let isRefused = false
  return {
    ...real,
    sendmmsg(fd, at, count, flags) {
      isRefused = count === targets - 1
      if (isRefused) return -1
      return real.sendmmsg(fd, at, count === targets ? 1 : count, flags)
    },
    errno: () => (isRefused ? inputOutput : real.errno()),
  }
}

it.skipIf(libc === null)('reach each target once, also one whose route refuses GSO', async () => {
  const receivers = [await receiver(), await receiver(), await receiver()]
  const own = refusing(libc!, receivers.length)
  const options = { bufferBytes: 1 << 20, timeoutMs: 20, keepsErrors: true, isV6Only: true }
  const fd = openSocket(own, { ...options, host, port: 0 })
  const failures: number[] = []
  const vectors = new ShredVectors(own, bytes)
  const sender = new BatchSender(own, fd, vectors, {
    events: { failed: (row) => failures.push(row), refused() {} },
    segments: true,
  })
  const address = parseAddress(host)!
  sender.setTargets(receivers.map(({ port }, row) => ({ row, address, port })))
  for (const kind of [0, 1] as const) {
    const shreds = Array.from({ length: 5 }, (_, index) => pinned(bytes[kind]).fill(index + 1))
    vectors.clear()
    for (const shred of shreds) vectors.add(kind, own.addressOf(shred))
    sender.send()
    const isComplete = () => receivers.every(({ packets }) => packets.length >= shreds.length)
    await until(() => isComplete() || failures.length > 0, 'all datagrams')
    for (const { packets } of receivers) expect(asTexts(packets.splice(0))).toEqual(asTexts(shreds))
  }
  expect([failures, sender.segments]).toEqual([[], true])
  own.close(fd)
})
