// Shreds sent per second of processor time to 1, 8 and 64 destinations, beside Node's sockets and a
// C program on the same call. Thread: main of the bench process.
// Processor time and not the clock: what a shred costs does not depend on who else runs here. The
// sink drops packets in the kernel before they are queued, so that only sending is measured; it
// counts them, and a count that is not what was sent fails the bench.

import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { compilerMissing } from '../lib/native.ts'
import { freePort, runNet, startNet } from '../lib/shred-net.ts'
import type { SendInput, SendOutput } from './clients/shred-sender.ts'

function contender(name: string, way: SendInput['way'] | 'c', targets: number): Contender {
  let client: BenchProcess | null = null
  return {
    name,
    missing: compilerMissing,
    async prepare() {
      if (way !== 'c') client = startProcess(new URL('./clients/shred-sender.js', import.meta.url))
    },
    async run({ seconds }) {
      const port = await freePort()
      const sink = await startNet('sink', port)
      const input: SendInput = { way: way === 'c' ? 'batch' : way, targets, seconds, port }
      const sent =
        way === 'c'
          ? await runNet('send', targets, seconds, 1203, port)
          : await client!.call<SendOutput>('send', input)
      const arrived = await sink.stop()
      return {
        opsPerSecond: sent.packets! / sent.cpu!,
        evidence: { sent: sent.packets, arrived: arrived.packets },
      }
    },
    async close() {
      await client?.stop()
    },
  }
}

export const bench: Bench = {
  name: 'shred-fan-out',
  question: 'How many shreds reach 1, 8 and 64 destinations per second of processor time?',
  cores: 2,
  baseline: contender('dgram connected, 8', 'dgram', 8),
  candidates: [
    contender('batched, 1', 'batch', 1),
    contender('batched, 8', 'batch', 8),
    contender('GSO batches, 8', 'segments', 8),
    contender('C sendmmsg, 8', 'c', 8),
    contender('dgram connected, 64', 'dgram', 64),
    contender('batched, 64', 'batch', 64),
    contender('GSO batches, 64', 'segments', 64),
    contender('C sendmmsg, 64', 'c', 64),
  ],
  goals: [8, 64].flatMap((count) => [
    goal(`batched, ${count}`, `C sendmmsg, ${count}`, 0.85),
    goal(`GSO batches, ${count}`, `C sendmmsg, ${count}`, 2),
    // One packet a header cannot reach this where C itself does not; GSO batches, the default, can.
    goal(`batched, ${count}`, `dgram connected, ${count}`, 3.5),
    goal(`GSO batches, ${count}`, `dgram connected, ${count}`, 3.5),
  ]),
  smoke: ['dgram connected, 8', 'batched, 8', 'GSO batches, 8', 'C sendmmsg, 8'],
  verify({ evidence }) {
    const { sent, arrived } = evidence as { sent: number; arrived: number }
    return sent === arrived && sent > 0 ? undefined : `${sent} sent, ${arrived} arrived`
  },
}

function goal(contender: string, to: string, atLeast: number) {
  return { contender, to, figure: 'opsPerSecond', atLeast } as const
}
