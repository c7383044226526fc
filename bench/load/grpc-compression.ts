// What compressed gRPC streams cost and save: updates per second of the server's processor time,
// and bytes on the wire, for one, ten and fifty streams with equal filters. Thread: main of the
// bench process, which is the client; the server is a process of its own.
import { type ClientHttp2Session, connect } from 'node:http2'
import { startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { Shared } from '../lib/shared.ts'
import type { Spent } from './clients/compression-server.ts'

const encodings = ['identity', 'gzip', 'zstd'] as const
type Encoding = (typeof encodings)[number]
const counts = [1, 10, 50] as const
const windowBytes = 16 * 1024 * 1024
// accounts { "a": {} }, as a frame.
const request = Buffer.from('00000000070a050a01611200', 'hex')

export const bench: Bench = {
  name: 'grpc-compression',
  question: 'What does a compressed update cost in processor time and save in bytes?',
  cores: 2,
  baseline: contender('identity', counts[0]),
  candidates: counts
    .flatMap((streams) => encodings.map((encoding) => contender(encoding, streams)))
    .slice(1),
  // Shared by all streams, a compression weighs less the more there are.
  goals: [10, 50].map((streams) => ({
    contender: nameOf('zstd', streams),
    to: nameOf('identity', streams),
    figure: 'opsPerSecond',
    atLeast: streams / 50,
  })),
  smoke: encodings.map((encoding) => nameOf(encoding, counts[0])),
  verify({ evidence }) {
    const { messages = 0, compressed = 0, encoding } = evidence as Seen
    if (messages === 0) return 'no messages came'
    return (encoding === 'identity') === (compressed === 0)
      ? undefined
      : `${compressed} of ${messages} messages were compressed`
  },
}

type Seen = { messages: number; compressed: number; encoding: Encoding }

function nameOf(encoding: Encoding, streams: number): string {
  return `${encoding} to ${streams}`
}

function contender(encoding: Encoding, streams: number): Contender {
  return {
    name: nameOf(encoding, streams),
    missing: ({ target }) => (target === undefined ? undefined : 'a deployment is measured'),
    async run(context) {
      const { child, port, token } = await server.get(context)
      const readers = Array.from({ length: streams }, () => new Reader(port, token, encoding))
      await Promise.all(readers.map((reader) => reader.begun))
      const before = await child.call<Spent>('spent')
      await new Promise((resolve) => setTimeout(resolve, context.seconds * 1000))
      const after = await child.call<Spent>('spent')
      const sum = (of: (reader: Reader) => number) =>
        readers.reduce((total, reader) => total + of(reader), 0)
      const messages = sum((reader) => reader.messages)
      const bytesPerOp = sum((reader) => reader.bytes) / messages
      const compressed = sum((reader) => reader.compressed)
      for (const reader of readers) reader.stop()
      const opsPerSecond = (after.updates - before.updates) / (after.cpuSeconds - before.cpuSeconds)
      return { opsPerSecond, bytesPerOp, evidence: { messages, compressed, encoding } }
    },
    close: () => server.stop(),
  }
}

/** One stream on a connection of its own; counts messages by their prefixes. */
class Reader {
  messages = 0
  compressed = 0
  bytes = 0
  readonly begun: Promise<void>
  readonly #session: ClientHttp2Session
  #rest: Buffer = Buffer.alloc(0)

  constructor(port: number, token: string, encoding: Encoding) {
    const settings = { initialWindowSize: windowBytes }
    this.#session = connect(`http://127.0.0.1:${port}`, { settings })
    this.#session.on('error', () => {})
    const stream = this.#session.request({
      ':method': 'POST',
      ':path': '/geyser.Geyser/Subscribe',
      'content-type': 'application/grpc',
      te: 'trailers',
      'x-token': token,
      'grpc-accept-encoding': encoding,
    })
    stream.on('error', () => {})
    stream.write(request)
    stream.on('data', (chunk: Buffer) => this.#read(chunk))
    this.begun = new Promise((resolve) => stream.once('data', () => resolve()))
  }

  stop(): void {
    this.#session.destroy()
  }

  #read(chunk: Buffer): void {
    this.bytes += chunk.length
    let rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    while (rest.length >= 5) {
      const end = 5 + rest.readUInt32BE(1)
      if (rest.length < end) break
      this.messages++
      this.compressed += rest[0]!
      rest = rest.subarray(end)
    }
    this.#rest = rest
  }
}

// One process for all contenders; without streams it is idle.
const server = new Shared(async () => {
  const child = startProcess(new URL('./clients/compression-server.js', import.meta.url))
  const opened = await child.call<{ port: number; token: string }>('open')
  return { child, ...opened, stop: () => child.stop() }
})
