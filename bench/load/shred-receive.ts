// Packets taken in per second of processor time: our batched receiver beside recvmmsg in C, each
// against the same flood. Thread: main of the bench process.

import { startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { compilerMissing } from '../lib/native.ts'
import { freePort, runNet, startNet } from '../lib/shred-net.ts'

const rate = 150_000
const quietMs = 300

const c: Contender = {
  name: 'C recvmmsg',
  missing: compilerMissing,
  async run({ seconds }) {
    const port = await freePort()
    const receiver = await startNet('receive', port)
    const sent = await runNet('flood', rate, seconds, port)
    await new Promise((done) => setTimeout(done, quietMs))
    const got = await receiver.stop()
    return measured(sent.packets!, got.packets!, got.cpu!)
  },
}

const ours: Contender = {
  name: 'ours',
  missing: compilerMissing,
  async run({ seconds, smoke }) {
    const port = await freePort()
    const client = startProcess(new URL('./clients/shred-sender.js', import.meta.url))
    try {
      await client.call('listen', port)
      const receiving = client.call<{ packets: number; cpu: number }>('receive', quietMs)
      if (smoke !== true) await new Promise((done) => setTimeout(done, 1000))
      const sent = await runNet('flood', rate, seconds, port)
      const got = await receiving
      return measured(sent.packets!, got.packets, got.cpu)
    } finally {
      await client.stop()
    }
  },
}

function measured(sent: number, got: number, cpu: number) {
  return { opsPerSecond: got / cpu, evidence: { sent, got } }
}

export const bench: Bench = {
  name: 'shred-receive',
  question: 'How many packets does the shred worker take in per second of processor time?',
  cores: 2,
  baseline: c,
  candidates: [ours],
  goals: [{ contender: 'ours', to: 'C recvmmsg', figure: 'opsPerSecond', atLeast: 0.8 }],
  verify({ evidence }) {
    const { sent, got } = evidence as { sent: number; got: number }
    // On a machine without cores to spare a receiver is not always there in time, C or not.
    return got > 0.5 * sent && got <= sent ? undefined : `${sent} sent, ${got} taken in`
  },
}
