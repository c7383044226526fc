// A wire between a server and its node: it can be slow, and it counts the texts that went over it.
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

export class SlowWire {
  delayMs = 0
  /** How often each watched text went to the node. */
  readonly seen = new Map<string, number>()
  readonly #target: number
  readonly #pattern: RegExp
  readonly #sockets = new Set<Socket>()
  #server: Server | null = null
  #port = 0

  /** `pattern` is global and matches within one request; requests go in one piece each. */
  constructor(target: number, pattern: RegExp) {
    this.#target = target
    this.#pattern = pattern
  }

  get port(): number {
    return this.#port
  }

  /** Listens; on the same port when it did before. */
  async up(): Promise<void> {
    const server = createServer((near) => this.#join(near))
    this.#server = server
    await new Promise<void>((resolve) => server.listen(this.#port, '127.0.0.1', resolve))
    this.#port = (server.address() as AddressInfo).port
  }

  /** Connections are gone, new ones are refused. */
  async down(): Promise<void> {
    const server = this.#server
    this.#server = null
    for (const socket of this.#sockets) socket.destroy()
    if (server !== null) await new Promise((resolve) => server.close(resolve))
  }

  #join(near: Socket): void {
    const far = connect(this.#target, '127.0.0.1')
    this.#carry(near, far, (chunk) => this.#count(chunk))
    this.#carry(far, near, () => {})
  }

  #carry(from: Socket, to: Socket, look: (chunk: Buffer) => void): void {
    this.#sockets.add(from)
    from.setNoDelay(true)
    from.on('error', () => {})
    from.on('close', () => {
      this.#sockets.delete(from)
      to.destroy()
    })
    from.on('data', (chunk) => {
      look(chunk)
      if (this.delayMs === 0) to.write(chunk)
      else setTimeout(() => to.write(chunk), this.delayMs)
    })
  }

  #count(chunk: Buffer): void {
    for (const [text] of chunk.toString('latin1').matchAll(this.#pattern))
      this.seen.set(text, (this.seen.get(text) ?? 0) + 1)
  }
}
