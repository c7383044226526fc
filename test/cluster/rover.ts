// A client of the event stream that moves from gateway to gateway with its cursor, and remembers
// every frame: its numbers must follow each other, and a number has one content everywhere.
import { WebSocket } from 'ws'

/** Frames come every 400 ms: a client that has none for so long tries another gateway. */
const patienceMs = 1_500

const head = /^\{"seq":(\d+),"(\w+)":/

export interface RoverOptions {
  /** Addresses of the gateways that run now. */
  urls(): readonly string[]
  /** Frames of all rovers: what a number's content is. */
  readonly contents: Map<number, string>
  random(): number
  /** Mean time at one gateway. */
  readonly stayMs: number
}

export class Rover {
  readonly problems: string[] = []
  frames = 0
  connections = 0
  snapshots = 0
  /** Longest time without a frame while connected or trying to. */
  longestSilenceMs = 0
  run = ''
  cursor = 0
  /** The first frame that is not of a snapshot: from here on it has all of them. */
  first = 0
  readonly #options: RoverOptions
  #socket: WebSocket | null = null
  #url = ''
  #patience: NodeJS.Timeout | null = null
  #timer: NodeJS.Timeout | null = null
  #lastMs = performance.now()
  #isOver = false

  constructor(options: RoverOptions) {
    this.#options = options
    this.#connect()
  }

  /** Stays where it is. */
  settle(): void {
    this.#isOver = true
    if (this.#timer !== null && this.#socket !== null) clearTimeout(this.#timer)
  }

  end(): void {
    this.settle()
    for (const timer of [this.#timer, this.#patience]) if (timer !== null) clearTimeout(timer)
    const socket = this.#socket
    this.#socket = null
    socket?.terminate()
  }

  /** The longest time without a frame since the last call. */
  takeSilenceMs(): number {
    const longest = Math.max(this.longestSilenceMs, performance.now() - this.#lastMs)
    this.longestSilenceMs = 0
    return longest
  }

  #connect(): void {
    const { urls, random, stayMs } = this.#options
    const all = urls().filter((one, _, { length }) => length === 1 || one !== this.#url)
    const url = all[Math.floor(random() * all.length)] ?? this.#url
    this.#url = url
    const query = this.cursor === 0 ? '' : `?resume_from=${this.cursor}&run=${this.run}`
    const socket = new WebSocket(`${url}/v1/ws${query}`, { perMessageDeflate: false })
    this.#socket = socket
    socket.on('message', (data: Buffer) => {
      if (this.#socket === socket) this.#take(data)
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      if (this.#socket === socket) this.#leave(50)
    })
    socket.once('open', () => this.connections++)
    this.#await()
    if (!this.#isOver) this.#timer = setTimeout(() => this.#leave(5), random() * 2 * stayMs)
  }

  /** A paused gateway accepts and says nothing: as any client would, try another one. */
  #await(): void {
    if (this.#patience !== null) clearTimeout(this.#patience)
    this.#patience = setTimeout(() => this.#leave(5), patienceMs)
  }

  #leave(waitMs: number): void {
    const socket = this.#socket
    this.#socket = null
    socket?.terminate()
    for (const timer of [this.#timer, this.#patience]) if (timer !== null) clearTimeout(timer)
    this.#timer = setTimeout(() => this.#connect(), this.#options.random() * 2 * waitMs)
  }

  #take(data: Buffer): void {
    const text = data.toString()
    const [, seqText, kind] = head.exec(text) ?? []
    const seq = Number(seqText)
    if (kind === 'Resume') this.#greeted(JSON.parse(text).Resume)
    if (kind === 'Resume' || !(seq > 0)) return
    const { contents } = this.#options
    const known = contents.get(seq)
    if (known === undefined) contents.set(seq, text)
    else if (known !== text) this.problems.push(`number ${seq} has two contents`)
    if (this.#isSnapshot) {
      // The newest frame of each kind, then all that follow the newest.
      if (seq > this.#newest) this.#isSnapshot = false
      else return
    }
    if (this.cursor !== 0 && seq !== this.cursor + 1)
      this.problems.push(`${seq} after ${this.cursor}`)
    this.cursor = seq
    if (this.frames++ === 0) this.first = seq
    this.#await()
    const nowMs = performance.now()
    this.longestSilenceMs = Math.max(this.longestSilenceMs, nowMs - this.#lastMs)
    this.#lastMs = nowMs
  }

  #isSnapshot = false
  #newest = 0

  #greeted(greeting: { mode: string; run: string; newest: number }): void {
    if (greeting.mode === 'snapshot') {
      if (this.cursor !== 0) this.snapshots++
      this.cursor = greeting.newest
      this.#newest = greeting.newest
      this.#isSnapshot = true
      this.run = greeting.run
    } else if (greeting.run !== this.run) this.problems.push('resumed in another run')
  }
}
