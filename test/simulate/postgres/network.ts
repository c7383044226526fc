// The network between gateways and PostgreSQL: sockets in memory, in place of those of node:net.
// Bytes arrive in order and late; a path ends, or is silent from any byte on in both directions.
import { EventEmitter } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'

/** The server's end of a connection. */
export interface Peer {
  receive(chunk: Buffer): void
  /** The client closed it, or is gone. */
  ended(): void
}

/** What a server does with a connection; null refuses it. */
export type Accept = (path: Path) => Peer | null

export interface NetworkOptions {
  /** In [0, 1). */
  readonly random: () => number
  /** Called with each fault that the network itself makes. */
  readonly onFault: (what: string) => void
}

/** Of a message; now and then one takes longer. */
const latencyMs = { usual: 3, slow: 300 }

export class Network {
  readonly #options: NetworkOptions
  readonly #servers = new Map<string, Accept>()
  readonly #unreachable = new Set<string>()
  readonly paths = new Set<Path>()
  /** That a message and all after it on its connection are lost. */
  silenceChance = 0
  slowChance = 0.01

  constructor(options: NetworkOptions) {
    this.#options = options
  }

  listen(host: string, accept: Accept): void {
    this.#servers.set(host, accept)
  }

  /** Nothing arrives at that host, connections that exist are silent. */
  partition(host: string): void {
    this.#unreachable.add(host)
    for (const path of this.paths) if (path.host === host) path.silence()
  }

  join(host: string): void {
    this.#unreachable.delete(host)
  }

  /** The server's end; null when it is refused, undefined when nothing answers. */
  open(path: Path): Peer | null | undefined {
    if (this.#unreachable.has(path.host) || this.#isLost()) return undefined
    return this.#servers.get(path.host)?.(path) ?? null
  }

  /** Delivers after a while, unless the path is silent by then. */
  later(deliver: () => void): void {
    const { random } = this.#options
    const { usual, slow } = latencyMs
    const ms = random() < this.slowChance ? slow * random() : usual * random()
    setTimeout(deliver, 1 + ms)
  }

  /** Whether the network loses this message. */
  loses(path: Path): boolean {
    if (!path.isSilent && this.#isLost()) path.silence()
    return path.isSilent
  }

  #isLost(): boolean {
    if (this.silenceChance === 0 || this.#options.random() >= this.silenceChance) return false
    this.#options.onFault('silences')
    return true
  }
}

/** A connection from a client to a host. */
export class Path {
  readonly host: string
  /** Of the client, once its server knows it. */
  name = ''
  isSilent = false
  readonly #network: Network
  readonly #socket: SimulatedSocket
  readonly #toServer: (() => void)[] = []
  readonly #toClient: (() => void)[] = []
  #peer: Peer | null = null
  #isOpen = true

  constructor(network: Network, socket: SimulatedSocket, host: string) {
    this.#network = network
    this.#socket = socket
    this.host = host
    network.paths.add(this)
    this.#send(this.#toServer, () => this.#connect())
  }

  silence(): void {
    this.isSilent = true
  }

  /** From the client. */
  request(chunk: Buffer): void {
    this.#send(this.#toServer, () => this.#peer?.receive(chunk))
  }

  /** The client is done with it. */
  hangUp(): void {
    this.#network.paths.delete(this)
    this.#isOpen = false
    this.#send(this.#toServer, () => this.#peer?.ended())
  }

  /** From the server. */
  respond(chunk: Buffer): void {
    this.#send(this.#toClient, () => this.#socket.emit('data', chunk))
  }

  /** Something in between ends it for both. */
  cut(): void {
    this.#peer?.ended()
    this.reset()
  }

  /** The server's end is closed, or its process is gone. */
  reset(): void {
    this.#peer = null
    this.#send(this.#toClient, () => {
      const code = 'ECONNRESET'
      this.#socket.destroy(Object.assign(new Error('read ECONNRESET'), { code }))
    })
  }

  #connect(): void {
    const peer = this.#network.open(this)
    if (peer === undefined) {
      this.silence()
      return
    }
    this.#peer = peer
    this.#send(this.#toClient, () => {
      if (peer !== null) return void this.#socket.emit('connect')
      const code = 'ECONNREFUSED'
      this.#socket.destroy(Object.assign(new Error('connect ECONNREFUSED'), { code }))
    })
  }

  /** In order: timers of several lengths may be due at once. */
  #send(queue: (() => void)[], deliver: () => void): void {
    if (this.#network.loses(this)) return
    queue.push(deliver)
    this.#network.later(() => {
      const first = queue.shift()
      if (this.isSilent || (queue === this.#toClient && !this.#isOpen)) return
      first?.()
    })
  }
}

let current: Network | null = null

/** What the pg library uses of a socket. */
class SimulatedSocket extends EventEmitter {
  #path: Path | null = null
  #isDestroyed = false

  get writable(): boolean {
    return !this.#isDestroyed
  }

  connect(_port: number, host: string): this {
    this.#path = new Path(current!, this, host)
    return this
  }

  write(chunk: Buffer, done?: () => void): boolean {
    if (!this.#isDestroyed) this.#path?.request(Buffer.from(chunk))
    if (done !== undefined) process.nextTick(done)
    return true
  }

  end(): this {
    return this.destroy()
  }

  destroy(error?: Error): this {
    if (this.#isDestroyed) return this
    this.#isDestroyed = true
    this.#path?.hangUp()
    process.nextTick(() => {
      if (error !== undefined) this.emit('error', error)
      this.emit('end')
      this.emit('close')
    })
    return this
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }
}

const realSocket = net.Socket

/** Runs `body` with the sockets of `network`. */
export async function onNetwork<T>(network: Network, body: () => Promise<T>): Promise<T> {
  current = network
  Object.assign(net, { Socket: SimulatedSocket })
  syncBuiltinESMExports()
  try {
    return await body()
  } finally {
    Object.assign(net, { Socket: realSocket })
    syncBuiltinESMExports()
    current = null
  }
}
