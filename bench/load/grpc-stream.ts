// Messages per second to gRPC streams: the whole product beside plain grpc-js, a bare http2
// writer of the same bytes, and a C program. Thread: main of the bench process; servers and the
// client are processes of their own. The client is a C program too: how much of a core it needed is
// shown, since a client that is the limit would make all servers look alike.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { buildNative, compilerMissing, runNative } from '../lib/native.ts'
import type { Opened } from './clients/grpc-servers.ts'

type Kind = 'ours' | 'plain' | 'http2' | 'c'

const shapes = [400, 2000].flatMap((length) => [1, 10, 50].map((streams) => ({ length, streams })))
const names: Readonly<Record<Kind, string>> = {
  ours: 'grpc endpoint',
  plain: 'grpc-js call.write',
  http2: 'node:http2, 32 joined',
  c: 'C, 16 kB writes',
}
/** Of C's speed; more streams share what an update costs in JavaScript. */
function toC({ length, streams }: (typeof shapes)[number]): number {
  if (length < 2000) return 0.12
  return streams === 1 ? 0.6 : streams === 10 ? 0.7 : 0.8
}

// accounts { "a": {} }: everything, under one name or under one of its own for each stream.
const sameFilters = '0a050a01611200'
const ownFilters = '0a050a01XX1200'

export const bench: Bench = {
  name: 'grpc-stream',
  question: 'How many updates per second reach the subscribers of geyser.Geyser?',
  cores: 2,
  baseline: contender('plain', shapes[0]!),
  candidates: [
    ...shapes.flatMap((shape) =>
      (['plain', 'http2', 'c', 'ours'] as const).map((kind) => contender(kind, shape)),
    ),
    contender('ours', { length: 400, streams: 50 }, ownFilters),
  ].slice(1),
  goals: shapes.flatMap((shape) => {
    const own = nameOf('ours', shape)
    const figure = 'opsPerSecond' as const
    return [
      { contender: own, to: nameOf('plain', shape), figure, atLeast: 15 },
      { contender: own, to: nameOf('http2', shape), figure, atLeast: 0.7 },
      { contender: own, to: nameOf('c', shape), figure, atLeast: toC(shape) },
    ]
  }),
  smoke: (['plain', 'http2', 'c', 'ours'] as const).map((kind) => nameOf(kind, shapes[0]!)),
  verify({ evidence }) {
    const { messages = 0, wrong } = evidence ?? {}
    if (messages === 0) return 'no messages came'
    return wrong === 0 ? undefined : `${wrong} messages had the wrong length`
  },
}

interface Shape {
  readonly length: number
  readonly streams: number
}

function nameOf(kind: Kind, { length, streams }: Shape, request = sameFilters): string {
  const apart = request === ownFilters ? ', own filters' : ''
  return `${names[kind]}, ${length} B to ${streams}${apart}`
}

function contender(kind: Kind, shape: Shape, request = sameFilters): Contender {
  const { length, streams } = shape
  return {
    name: nameOf(kind, shape, request),
    missing: async ({ target }) =>
      target === undefined ? compilerMissing() : 'a deployment is measured',
    async prepare() {
      await serverOf(kind, length)
    },
    async run({ seconds }) {
      const { port, token } = await serverOf(kind, length)
      const client = await buildNative('grpc-client')
      const words = [port, streams, seconds, length, request, token]
      const { ops = 0, ...evidence } = await runNative(client, words)
      return { opsPerSecond: ops, evidence }
    },
    close: stopServers,
  }
}

// One process for each kind, shared by the shapes; a server without streams is idle.
const servers = new Map<string, Promise<Opened>>()
const processes = new Map<Kind, BenchProcess>()
const blasters: ChildProcess[] = []

function serverOf(kind: Kind, length: number): Promise<Opened> {
  const key = `${kind} ${length}`
  const known = servers.get(key)
  if (known !== undefined) return known
  const opened = kind === 'c' ? blast(length) : openIn(kind, length)
  servers.set(key, opened)
  return opened
}

function openIn(kind: Kind, length: number): Promise<Opened> {
  const child =
    processes.get(kind) ?? startProcess(new URL('./clients/grpc-servers.js', import.meta.url))
  processes.set(kind, child)
  return child.call<Opened>(kind, length)
}

async function blast(length: number): Promise<Opened> {
  const child = spawn(await buildNative('grpc-blast'), [String(length)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  blasters.push(child)
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { port: Number(line.toString()), token: '' }
}

async function stopServers(): Promise<void> {
  servers.clear()
  for (const child of blasters.splice(0)) child.stdin?.end()
  const stopping = [...processes.values()].map((child) => child.stop())
  processes.clear()
  await Promise.all(stopping)
}
