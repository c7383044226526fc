// A TCP relay between a client and a server that a test can cut, stall and restore.
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

export class TcpCut {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #isRefusing = false
  #isHeld = false
  #isSwallowing = false
  #delayMs = 0
  readonly #holes = new WeakSet<Socket>()
  /** Connections that came through. */
  accepted = 0
  /** Bytes that came from the server. */
  bytes = 0

  private constructor(target: string) {
    const [host = '', port = ''] = target.split(':')
    this.#server = createServer((near) => {
      if (this.#isRefusing) {
        near.destroy()
        return
      }
      this.accepted++
      const far = connect(Number(port), host)
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(from)
        let late = Promise.resolve()
        let waiting = 0
        from.on('error', () => {})
        from.on('close', () => {
          this.#sockets.delete(from)
          to.destroy()
        })
        from.on('data', (chunk) => {
          if (from === far) this.bytes += chunk.length
          // What follows a hole never arrives: TCP leaves no byte out.
          if (this.#isSwallowing) this.#holes.add(from)
          if (this.#holes.has(from)) return
          const delayMs = from === near ? 0 : this.#delayMs
          if (delayMs === 0 && waiting === 0) {
            to.write(chunk)
            return
          }
          // In order, also after the delay has ended: TCP overtakes nothing.
          waiting++
          const delayed = pause(delayMs)
          late = late
            .then(() => delayed)
            .then(() => {
              waiting--
              to.write(chunk)
            })
        })
        if (this.#isHeld) from.pause()
      }
    })
  }

  static async open(target: string): Promise<TcpCut> {
    const cut = new TcpCut(target)
    await new Promise<void>((resolve) => cut.#server.listen(0, '127.0.0.1', resolve))
    return cut
  }

  /** Sockets that are open, two of each connection. */
  get open(): number {
    return this.#sockets.size
  }

  get target(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Every connection breaks; new ones come through. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Refuses all connections from now on. */
  refuse(isRefusing: boolean): void {
    this.#isRefusing = isRefusing
    if (isRefusing) this.cut()
  }

  /** Connections stay, and nothing moves on them: a process that is stopped looks like this. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld
    for (const socket of this.#sockets) {
      if (isHeld) socket.pause()
      else socket.resume()
    }
  }

  /** What the server sends arrives this much later from now on. */
  delay(ms: number): void {
    this.#delayMs = ms
  }

  /** Bytes vanish while connections stay and new ones are accepted: a half-open network. */
  swallow(isSwallowing: boolean): void {
    this.#isSwallowing = isSwallowing
  }

  /** Bytes of the open connections vanish from now on; those of new ones come through. */
  blackHole(): void {
    for (const socket of this.#sockets) this.#holes.add(socket)
  }

  close(): void {
    this.cut()
    this.#server.close()
  }
}
