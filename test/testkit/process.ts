// Servers and clients of a bench as processes of their own, so that they do not share an event
// loop with what is measured. Thread: main of the bench process and of each child.
//
// A child's entry calls `serveBench({ name: async (input) => output })`; the bench starts it with
// `startProcess(new URL('./child.js', import.meta.url))` and calls `child.call('name', input)`.
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

type Handlers = Readonly<Record<string, (input: never) => unknown>>

interface Call {
  readonly id: number
  readonly name: string
  readonly input: unknown
}

interface Answer {
  readonly id: number
  readonly output?: unknown
  readonly error?: string
}

const stopMsMax = 5000

export interface BenchProcess {
  readonly pid: number
  call<T>(name: string, input?: unknown): Promise<T>
  /** Ends the process; killed when it does not end within 5 s. */
  stop(): Promise<void>
}

export function startProcess(entry: URL, words: readonly string[] = []): BenchProcess {
  const child = fork(fileURLToPath(entry), [...words], { serialization: 'advanced' })
  const waiting = new Map<number, (answer: Answer) => void>()
  let calls = 0
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      for (const [id, answer] of waiting)
        answer({ id, error: `process ended with ${signal ?? code}` })
      waiting.clear()
      resolve()
    })
  })
  child.on('message', (answer: Answer) => {
    waiting.get(answer.id)?.(answer)
    waiting.delete(answer.id)
  })
  return {
    pid: child.pid ?? 0,
    call<T>(name: string, input?: unknown): Promise<T> {
      calls += 1
      const call: Call = { id: calls, name, input }
      return new Promise<T>((resolve, reject) => {
        waiting.set(call.id, (answer) => {
          if (answer.error === undefined) resolve(answer.output as T)
          else reject(new Error(`${name}: ${answer.error}`))
        })
        child.send(call, (error) => {
          if (error !== null) waiting.get(call.id)?.({ id: call.id, error: error.message })
        })
      })
    },
    stop: () => stopChild(child, ended),
  }
}

/** Answers the bench's calls in a child process until the bench goes away. */
export function serveBench(handlers: Handlers): void {
  process.on('message', async (call: Call) => {
    try {
      const handler = handlers[call.name]
      if (handler === undefined) throw new Error('no such handler')
      const output = await handler(call.input as never)
      process.send?.({ id: call.id, output })
    } catch (error) {
      process.send?.({ id: call.id, error: error instanceof Error ? error.message : String(error) })
    }
  })
  process.once('disconnect', () => process.exit(0))
}

async function stopChild(child: ChildProcess, ended: Promise<void>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  if (child.connected) child.disconnect()
  const timer = setTimeout(() => child.kill('SIGKILL'), stopMsMax)
  await ended
  clearTimeout(timer)
}
