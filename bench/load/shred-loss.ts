// 20,000 shreds a second to 8 destinations: is any lost on our side? Thread: main of the bench
// process. The source is paced C, the destinations are a sink in the kernel that counts.

import { startProcess } from '../../test/testkit/process.ts'
import { until } from '../../test/testkit/until.ts'
import type { Bench, Contender, RoundContext } from '../lib/bench.ts'
import { compilerMissing } from '../lib/native.ts'
import { freePort, runNet, startNet } from '../lib/shred-net.ts'
import type { ServerInput } from './clients/shred-server.ts'

/** In a smoke run so few that a socket's buffer holds them all, on any machine. */
const rateOf = ({ smoke }: RoundContext) => (smoke === true ? 2_000 : 20_000)
const targets = 8
/** How long the last packets may take to be through. */
const drainMsMax = 3_000

type Totals = Readonly<Record<string, number>>

function contender(name: string, io: ServerInput['io']): Contender {
  return {
    name,
    missing: compilerMissing,
    async run(context) {
      const { seconds } = context
      const outPort = await freePort()
      const sink = await startNet('sink', outPort)
      const server = startProcess(new URL('./clients/shred-server.js', import.meta.url))
      try {
        const input: ServerInput = { io, targets, outPort }
        const port = await server.call<number>('start', input)
        const { packets: offered = 0 } = await runNet('flood', rateOf(context), seconds, port)
        const isThrough = async () =>
          (await server.call<Totals>('totals')).sent! >= offered * targets
        // What is lost never comes.
        await until(isThrough, 'the last packets', drainMsMax).catch(() => {})
        const totals = await server.call<Totals>('stop')
        const { packets: arrived = 0 } = await sink.stop()
        const { accepted, sent } = totals
        return { opsPerSecond: arrived / seconds, evidence: { offered, accepted, sent, arrived } }
      } finally {
        await server.stop()
      }
    },
  }
}

export const bench: Bench = {
  name: 'shred-loss',
  question: 'Is any of 20,000 shreds a second lost on the way to 8 destinations?',
  cores: 2,
  baseline: contender('dgram', 'dgram'),
  candidates: [contender('ours', 'batch')],
  verify({ evidence }, name) {
    const { offered, accepted, sent, arrived } = evidence as Record<string, number>
    if (arrived === 0) return 'nothing arrived'
    const isLossless = arrived === offered! * targets && sent === arrived
    // Node's sockets are shown for comparison and may lose some.
    if (isLossless || name === 'dgram') return undefined
    return `${offered} offered, ${accepted} taken in, ${sent} sent, ${arrived} arrived`
  },
}
