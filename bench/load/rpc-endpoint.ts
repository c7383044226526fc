// Requests per second through the rpc endpoint with its token check and budget, beside the native
// server answering a constant, node:http with the same handler, and nginx.
// Thread: main of the bench process; servers and client are processes of their own.

import { type Nginx, nginxMissing, startNginx } from '../../test/testkit/nginx.ts'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender, RoundContext } from '../lib/bench.ts'
import { httpLoad, jsonPost, perCpuSecond, verifyLoad } from '../lib/http-load.ts'
import { compilerMissing } from '../lib/native.ts'
import type { Started } from './clients/rpc-parts.ts'

const connections = 64
/** What is sent, and what every answer must contain. */
export interface Question {
  readonly body: string
  readonly expected: string
}

export const health: Question = {
  body: '{"jsonrpc":"2.0","id":1,"method":"getHealth"}',
  expected: '"result":"ok"',
}
const rpcPort = 8899
const WARM_UP_SECONDS = 0.5

export const ours = 'rpc endpoint: token, budget, getHealth'
export const bare = 'native server, constant answer'
export const node = 'node:http, same handler'
const nginx = 'nginx, constant answer'

export const bench: Bench = {
  name: 'rpc-endpoint',
  question: 'How many authenticated calls per second does the rpc endpoint answer?',
  cores: 2,
  baseline: serverContender(bare, 'bare'),
  candidates: [oursContender(), serverContender(node, 'node'), nginxContender()],
  goals: [
    { contender: ours, to: bare, figure: 'opsPerSecond', atLeast: 0.75 },
    { contender: ours, to: node, figure: 'opsPerSecond', atLeast: 4 },
    { contender: ours, to: nginx, figure: 'opsPerSecond', atLeast: 0.35 },
  ],
  verify: verifyLoad,
}

function drive(
  host: string,
  { port, token }: Started,
  seconds: number,
  { body, expected }: Question = health,
  rate?: number,
) {
  const paced = rate === undefined ? {} : { rate }
  const request = jsonPost(token, body)
  return httpLoad({ host, port, seconds, connections, expected, request, ...paced })
}

/** Answers per second; by `cpu` per second of processor time that the server used, which other
 *  programs on the machine disturb less; by `half` at half the rate that it just reached. */
export function serverContender(
  name: string,
  kind: 'ours' | 'bare' | 'node' | 'stream',
  by: 'clock' | 'cpu' | 'half' = 'clock',
  question: Question = health,
): Contender {
  let child: BenchProcess | null = null
  let started: Started | null = null
  return {
    name,
    missing: async (context) =>
      onlyHere(context) ?? (by === 'half' ? await compilerMissing() : undefined),
    async prepare({ smoke }) {
      child = startProcess(new URL('./clients/rpc-servers.js', import.meta.url))
      started = await child.call<Started>(kind)
      if (smoke !== true) await drive('127.0.0.1', started, WARM_UP_SECONDS, question)
    },
    async run({ seconds, smoke }) {
      if (by === 'half') {
        const first = smoke === true ? seconds : WARM_UP_SECONDS
        const { opsPerSecond } = await drive('127.0.0.1', started!, first, question)
        return drive('127.0.0.1', started!, seconds, question, opsPerSecond / 2)
      }
      const asked = () => drive('127.0.0.1', started!, seconds, question)
      return by === 'cpu' ? perCpuSecond(() => child!.call('cpuSeconds'), asked) : asked()
    },
    async close() {
      await child?.stop()
    },
  }
}

/** Ours, or a deployment that is named by --target and --token. */
function oursContender(): Contender {
  const here = serverContender(ours, 'ours')
  return {
    name: ours,
    prepare: (context) =>
      context.target === undefined ? here.prepare!(context) : Promise.resolve(),
    run: (context) => {
      if (context.target === undefined) return here.run(context)
      const [host = '', port = String(rpcPort)] = context.target.split(':')
      return drive(host, { port: Number(port), token: context.token ?? '' }, context.seconds)
    },
    close: () => here.close!(),
  }
}

function nginxContender(): Contender {
  const answer = '{"jsonrpc":"2.0","result":"ok","id":1}'
  let server: Nginx | null = null
  return {
    name: nginx,
    missing: async (context) => onlyHere(context) ?? (await nginxMissing()),
    async prepare() {
      server = await startNginx('', `default_type application/json; return 200 '${answer}';`)
    },
    run: ({ seconds }) => drive('127.0.0.1', { port: server!.port, token: 'none' }, seconds),
    async close() {
      await server?.stop()
    },
  }
}

function onlyHere({ target }: RoundContext): string | undefined {
  return target === undefined ? undefined : 'a deployment is measured'
}
