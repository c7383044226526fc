// Runs bench/native/ws-sink.c, the receiving end of the stream benches, beside a sender.
// Thread: main of the bench process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { buildNative } from './native.ts'

export interface SinkOptions {
  readonly port: number
  readonly path: string
  readonly sockets: number
  readonly seconds: number
  /** Ends when every socket has got this frame. */
  readonly lastSeq?: number
}

export interface SinkResult {
  readonly frames: number
  readonly gaps: number
  readonly closed: number
  readonly bytes: number
  /** Seconds between the first and the last frame. */
  readonly span: number
  /** Seconds from the first connect to the last frame. */
  readonly elapsed: number
  readonly p50: number
  readonly p99: number
  readonly p999: number
}

/** `whenReady` is called when all sockets are open; the sink ends when every socket has got the
 *  frame that it returns, and after `seconds` in any case. */
export async function runSink(
  { port, path, sockets, seconds, lastSeq }: SinkOptions,
  whenReady: () => Promise<number | undefined> = async () => undefined,
): Promise<SinkResult> {
  const program = await buildNative('ws-sink')
  const words = [port, path, sockets, seconds, ...(lastSeq === undefined ? [] : [lastSeq])]
  const child = spawn(program, words.map(String), { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.on('error', () => {})
  let output = ''
  let ready: Promise<void> | null = null
  child.stdout.on('data', (chunk) => {
    output += chunk
    if (ready === null && output.startsWith('ready\n')) ready = begin()
  })
  const begin = async () => {
    const last = await whenReady()
    if (last !== undefined) child.stdin.end(`${last}\n`)
  }
  await once(child, 'close')
  if (ready === null) throw new Error(`the sink could not connect: ${output}`)
  await ready
  return JSON.parse(output.slice('ready\n'.length)) as SinkResult
}
