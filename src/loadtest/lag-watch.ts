// Measures how late an event loop handles a message that arrives: the bench's own distortion.
// Thread: `Heartbeat` main, `LagWatch` the watched thread.
// Timers of libuv are whole milliseconds, too coarse for a bound of 1 ms. Here another thread sends
// its time in a message, and the watched loop subtracts that from the time when it gets it.
//
//   heartbeat worker: every 10 ms postMessage(now) ──► port ──► LagWatch: now - sent
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads'
import { workerEntry } from '../base/package-root.ts'
import { Latencies } from './latencies.ts'
import { sharedNowMs } from './thread-clock.ts'

/** A run whose own lag exceeds this at p99 is unfit. */
export const lagMsMax = 1
const beatEveryMs = 10

/** The thread that beats; one serves any number of watched threads. */
export class Heartbeat {
  readonly #worker: Worker

  constructor() {
    this.#worker = new Worker(workerEntry('heartbeat'))
    this.#worker.unref()
  }

  /** A port to hand to the thread that is to be watched (it must be transferred there). */
  port(): MessagePort {
    const { port1, port2 } = new MessageChannel()
    this.#worker.postMessage(port1, [port1])
    return port2
  }

  async stop(): Promise<void> {
    await this.#worker.terminate()
  }
}

/** Lags of the thread that creates it. */
export class LagWatch {
  readonly lags = new Latencies()
  readonly #port: MessagePort

  constructor(port: MessagePort) {
    this.#port = port
    const createdMs = sharedNowMs()
    port.on('message', (sentMs: number) => {
      // Beats that waited while the thread was starting say nothing about its loop.
      if (sentMs >= createdMs) this.lags.record(sharedNowMs() - sentMs)
    })
    port.unref()
  }

  /** The sentence for the result when the lag was over the bound, else null. */
  unfit(thread: string): string | null {
    const p99 = this.lags.percentile(99)
    if (p99 === null || p99 <= lagMsMax) return null
    const lag = `${p99.toFixed(1)} ms at p99 (over ${lagMsMax} ms)`
    return `this machine is too busy to measure: the event loop of ${thread} lagged by ${lag}`
  }

  stop(): void {
    this.#port.close()
  }
}

/** The program of the heartbeat worker: sends the time to every port that it is given. */
export function runHeartbeat(parent: MessagePort): void {
  const ports: MessagePort[] = []
  parent.on('message', (port: MessagePort) => ports.push(port))
  setInterval(() => {
    for (const port of ports) port.postMessage(sharedNowMs())
  }, beatEveryMs)
}
