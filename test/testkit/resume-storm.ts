// Clients that come, go and resume at random, each keeping what it got; afterwards every one of
// them must receive the whole sequence of its kinds, once and in order.
import { WebSocket } from 'ws'
import { type StreamKind, streamKinds } from '../../src/streams/log/encoded.ts'
import { until } from './until.ts'

export interface StormOptions {
  readonly url: string
  readonly clients: number
  /** Mean time until a client leaves. */
  readonly stayMs: number
  /** The first frame that counts; every client begins here. */
  readonly cursor: number
  readonly run: string
}

/** Only what the check needs is kept of a frame. */
const head = /^\{"seq":(\d+),"(\w+)":/

export class StormClient {
  readonly kinds: readonly StreamKind[]
  readonly seqs: number[] = []
  resumes = 0
  snapshots = 0
  readonly #options: StormOptions
  #socket: WebSocket | null = null
  #timer: NodeJS.Timeout | null = null
  #isOver = false

  constructor(index: number, options: StormOptions) {
    const chosen = streamKinds.filter((_, bit) => (((index % 15) + 1) >> bit) & 1)
    this.kinds = chosen
    this.#options = options
    this.#connect()
  }

  get cursor(): number {
    return this.seqs.at(-1) ?? this.#options.cursor
  }

  /** Stops leaving; stays connected until `end`. */
  settle(): void {
    this.#isOver = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    if (this.#socket === null) this.#connect()
  }

  end(): void {
    this.#isOver = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    const socket = this.#socket
    // One that is closed is not opened again.
    this.#socket = null
    socket?.terminate()
  }

  #connect(): void {
    const { url, run } = this.#options
    const query = `events=${this.kinds.join(',')}&resume_from=${this.cursor}&run=${run}`
    const socket = new WebSocket(`${url}/v1/ws?${query}`, { perMessageDeflate: false })
    this.#socket = socket
    socket.on('message', (data: Buffer) => {
      if (this.#socket === socket) this.#take(data)
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      if (this.#socket !== socket) return
      this.#socket = null
      this.#timer = setTimeout(() => this.#connect(), Math.random() * 50)
    })
    if (!this.#isOver)
      this.#timer = setTimeout(() => this.#leave(), Math.random() * 2 * this.#options.stayMs)
  }

  #take(data: Buffer): void {
    const [, seq, kind] = head.exec(data.toString('latin1', 0, 60)) ?? []
    if (kind === 'Resume') {
      if (data.includes('"mode":"resume"')) this.resumes++
      else this.snapshots++
    } else if (Number(seq) > 0) this.seqs.push(Number(seq))
  }

  /** Half of them close properly, the others are cut. */
  #leave(): void {
    const socket = this.#socket
    this.#socket = null
    if (Math.random() < 0.5) socket?.close()
    else socket?.terminate()
    this.#timer = setTimeout(() => this.#connect(), Math.random() * 100)
  }
}

/** Waits until every client has all of `due`, then gives the first departure, or null. */
export async function checkStorm(
  clients: readonly StormClient[],
  due: ReadonlyMap<number, string>,
  deadlineMs: number,
): Promise<string | null> {
  const wanted = (client: StormClient) =>
    [...due].filter(([, kind]) => kind === 'Gap' || client.kinds.includes(kind as StreamKind))
  const dueOf = new Map(clients.map((client) => [client, wanted(client).map(([seq]) => seq)]))
  await until(
    () => clients.every((client) => client.cursor >= (dueOf.get(client)!.at(-1) ?? 0)),
    'every client to be up to date',
    deadlineMs,
  ).catch(() => {})
  for (const [client, seqs] of dueOf) {
    const at = seqs.findIndex((seq, index) => client.seqs[index] !== seq)
    const about = `${client.kinds} after ${client.resumes} resumes, ${client.snapshots} snapshots`
    if (at >= 0) return `${about}: frame ${at} should be ${seqs[at]}, is ${client.seqs[at]}`
    if (client.seqs.length !== seqs.length)
      return `${about}: ${client.seqs.length} frames instead of ${seqs.length}`
  }
  return null
}
