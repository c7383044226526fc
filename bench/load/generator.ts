// Calls per second of processor time that the generator of `sluice bench load` starts and answers,
// beside a C program with the same open loop. The rate is beyond what either can generate.
// Thread: main of the bench process; server and generators are processes of their own.
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender, Measurement } from '../lib/bench.ts'
import { buildNative, compilerMissing, runNative } from '../lib/native.ts'
import type { GeneratorInput, GeneratorOutput } from './clients/load-generator.ts'
import type { Started } from './clients/rpc-parts.ts'

const connections = 64
const rate = 500_000
const host = '127.0.0.1'
const body = '{"jsonrpc":"2.0","id":1,"method":"getHealth"}'
const expected = '"result":"ok"'

const native = 'C, epoll, open loop'
const ours = 'sluice bench load, rpc'

export const bench: Bench = {
  name: 'generator',
  question: 'How many calls per second can one core of `sluice bench load` generate?',
  cores: 2,
  baseline: contender(native, async (port, seconds) => {
    const request =
      `POST / HTTP/1.1\r\nhost: ${host}:${port}\r\naccept: */*\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
    const words = [host, port, seconds, connections, request, expected, rate]
    const output = await runNative(await buildNative('http-load'), words)
    const { answers = 0, wrong = 0, cpu = 0 } = output
    return measured({ answers, wrong, cpuSeconds: cpu }, output)
  }),
  candidates: [generatorContender()],
  goals: [{ contender: ours, to: native, figure: 'opsPerSecond', atLeast: 0.5 }],
  verify: ({ evidence }) =>
    evidence?.wrong === 0 && Number(evidence.answers) > 0 ? undefined : 'wrong or no answers',
}

function generatorContender(): Contender {
  let generator: BenchProcess | null = null
  const base = contender(ours, async (port, seconds) => {
    const url = `http://${host}:${port}/`
    const input: GeneratorInput = { kind: 'rpc', url, call: body, connections, rate, seconds }
    const output = await generator!.call<GeneratorOutput>('generate', input)
    return measured(output, { ...output })
  })
  return {
    ...base,
    async prepare(context) {
      generator = startProcess(new URL('./clients/load-generator.js', import.meta.url))
      await base.prepare!(context)
    },
    async close() {
      await generator?.stop()
      await base.close!()
    },
  }
}

/** Each contender has a server of its own, so that none meets the other's open connections. */
function contender(
  name: string,
  drive: (port: number, seconds: number) => Promise<Measurement>,
): Contender {
  let server: BenchProcess | null = null
  let port = 0
  return {
    name,
    missing: async ({ target }) =>
      target === undefined ? compilerMissing() : 'measures this machine, not a deployment',
    async prepare() {
      server = startProcess(new URL('./clients/rpc-servers.js', import.meta.url))
      port = (await server.call<Started>('bare')).port
    },
    run: ({ seconds }) => drive(port, seconds),
    async close() {
      await server?.stop()
    },
  }
}

interface Counts {
  readonly answers: number
  readonly wrong: number
  readonly cpuSeconds: number
}

function measured(
  { answers, wrong, cpuSeconds }: Counts,
  latency: Readonly<Record<string, unknown>>,
): Measurement {
  const us = (name: string) => Number(latency[name] ?? 0)
  const latencyUs = { p50: us('p50'), p99: us('p99'), p999: us('p999') }
  return { opsPerSecond: answers / cpuSeconds, latencyUs, evidence: { answers, wrong } }
}
