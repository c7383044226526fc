// Sends shreds to many targets as fast as it can, in a process of its own: by our batched sender,
// with or without GSO segment batches, or by Node's sockets. Thread: main of that process.
import { createSocket } from 'node:dgram'
import { loadLibc, openSocket, pinned } from '../../../src/base/transport/udp-batch.ts'
import {
  BatchReceiver,
  BatchSender,
  batchMax,
  ShredVectors,
  slotBytes,
} from '../../../src/base/transport/udp-send.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { usedSeconds } from '../../lib/processor-time.ts'

export interface SendInput {
  readonly way: 'batch' | 'segments' | 'dgram'
  readonly targets: number
  readonly seconds: number
  readonly port: number
}

export interface SendOutput {
  readonly packets: number
  readonly wall: number
  readonly cpu: number
}

const shredBytes = 1203
const bufferBytes = 32 * 1024 * 1024

serveBench({
  send: (input: SendInput) => (input.way === 'dgram' ? sendDgram(input) : sendBatches(input)),
  listen,
  receive,
})

let receiver: BatchReceiver | null = null

async function sendBatches({ way, targets, seconds, port }: SendInput): Promise<SendOutput> {
  const libc = (await loadLibc())!
  const fd = openSocket(libc, {
    host: '0.0.0.0',
    port: 0,
    bufferBytes,
    timeoutMs: 20,
    keepsErrors: true,
    isV6Only: false,
  })
  const vectors = new ShredVectors(libc, [shredBytes, 1228])
  const arena = pinned(batchMax * slotBytes)
  for (let place = 0; place < batchMax; place += 1)
    vectors.add(0, libc.addressOf(arena) + place * slotBytes)
  let failed = 0
  const sender = new BatchSender(libc, fd, vectors, {
    events: { failed: (_row, _errno, shreds) => (failed += shreds), refused() {} },
    segments: way === 'segments',
  })
  sender.setTargets(
    Array.from({ length: targets }, (_, row) => ({
      row,
      address: { family: 4, words: [0, 0, 0, 0x7f000101 + row] as const },
      port,
    })),
  )
  const before = usedSeconds()
  const startedMs = performance.now()
  let packets = 0
  while (performance.now() - startedMs < seconds * 1000) {
    sender.send()
    packets += batchMax * targets
  }
  libc.close(fd)
  return outputOf(packets - failed, startedMs, before)
}

async function sendDgram({ targets, seconds, port }: SendInput): Promise<SendOutput> {
  const shred = Buffer.alloc(shredBytes)
  const sockets = await Promise.all(
    Array.from({ length: targets }, async (_, place) => {
      const socket = createSocket({ type: 'udp4', sendBufferSize: bufferBytes })
      await new Promise<void>((done) => socket.connect(port, `127.0.1.${place + 1}`, done))
      return socket
    }),
  )
  const before = usedSeconds()
  const startedMs = performance.now()
  let packets = 0
  while (performance.now() - startedMs < seconds * 1000) {
    for (const socket of sockets)
      socket.send(shred, (error) => {
        if (error === null) packets += 1
      })
    await new Promise((done) => setImmediate(done))
  }
  await new Promise((done) => setTimeout(done, 50))
  const output = outputOf(packets, startedMs, before)
  for (const socket of sockets) socket.close()
  return output
}

/** From now on the kernel keeps what comes. */
async function listen(port: number): Promise<void> {
  const libc = (await loadLibc())!
  const about = { bufferBytes, timeoutMs: 20, keepsErrors: false, isV6Only: false }
  const fd = openSocket(libc, { ...about, host: '0.0.0.0', port })
  receiver = new BatchReceiver(libc, fd)
}

/** Counts what our batched receiver takes in until nothing has come for a while. */
function receive(quietMs: number) {
  let packets = 0
  let bytes = 0
  let lastMs = performance.now()
  let before = usedSeconds()
  for (;;) {
    const count = receiver!.receive(true)
    const nowMs = performance.now()
    if (count > 0) {
      if (packets === 0) before = usedSeconds()
      packets += count
      for (let place = 0; place < count; place += 1) bytes += receiver!.lengthOf(place)
      lastMs = nowMs
    } else if (nowMs - lastMs > (packets === 0 ? 10_000 : quietMs)) break
  }
  return { packets, bytes, cpu: usedSeconds() - before }
}

function outputOf(packets: number, startedMs: number, before: number): SendOutput {
  return { packets, wall: (performance.now() - startedMs) / 1000, cpu: usedSeconds() - before }
}
