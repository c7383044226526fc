// The C ends of the ShredStream benches (bench/native/shred-net.c) as processes that are started,
// ended, and asked for what they saw. Thread: main of the bench process.
import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { buildNative } from './native.ts'

export type NetAnswer = Readonly<Record<string, number>>

/** Runs a mode to its end. */
export async function runNet(...words: (string | number)[]): Promise<NetAnswer> {
  const child = await start(words)
  return answerOf(child)
}

export interface NetProcess {
  /** Ends it; what it counted. */
  stop(): Promise<NetAnswer>
}

/** Starts a mode that runs until `stop`; resolves when its port is open. */
export async function startNet(...words: (string | number)[]): Promise<NetProcess> {
  const child = await start(words)
  const answer = answerOf(child)
  await once(child.stdout!, 'data')
  return {
    async stop() {
      child.kill('SIGTERM')
      return answer
    },
  }
}

/** A UDP port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const socket = createSocket('udp4')
  socket.bind(0)
  await once(socket, 'listening')
  const { port } = socket.address()
  await new Promise<void>((resolve) => socket.close(() => resolve()))
  return port
}

async function start(words: readonly (string | number)[]): Promise<ChildProcess> {
  const program = await buildNative('shred-net')
  return spawn(program, words.map(String), { stdio: ['ignore', 'pipe', 'inherit'] })
}

async function answerOf(child: ChildProcess): Promise<NetAnswer> {
  let text = ''
  child.stdout!.on('data', (chunk) => {
    text += chunk
  })
  await once(child, 'close')
  return JSON.parse(text.trim()) as NetAnswer
}
