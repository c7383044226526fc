// TCP proxies in front of a node that make one connection worse in a known way.
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** Passes bytes of the server on after a delay; `delaysMs` has how long each chunk really waited. */
export class DelayProxy {
  readonly delaysMs: number[] = []
  readonly #proxy: Relay

  private constructor(proxy: Relay) {
    this.#proxy = proxy
  }

  static async open(target: string, delayMs: number): Promise<DelayProxy> {
    const delayed = new DelayProxy(
      await Relay.open(target, (near) => (chunk) => {
        const arrivedMs = performance.now()
        const send = () => {
          delayed.delaysMs.push(performance.now() - arrivedMs)
          if (!near.destroyed) near.write(chunk)
        }
        if (delayMs === 0) send()
        else setTimeout(send, delayMs)
      }),
    )
    return delayed
  }

  get target(): string {
    return this.#proxy.target
  }

  close(): void {
    this.#proxy.close()
  }
}

/** Drops every n-th notification of a WebSocket. */
export class DropProxy {
  passed = 0
  dropped = 0
  readonly #proxy: Relay

  private constructor(proxy: Relay) {
    this.#proxy = proxy
  }

  static async open(target: string, every: number): Promise<DropProxy> {
    const dropping = new DropProxy(
      await Relay.open(target, (near) => {
        let rest = Buffer.alloc(0)
        let isUpgraded = false
        return (chunk) => {
          rest = Buffer.concat([rest, chunk])
          if (!isUpgraded) {
            const end = rest.indexOf('\r\n\r\n')
            if (end < 0) return
            isUpgraded = true
            near.write(rest.subarray(0, end + 4))
            rest = rest.subarray(end + 4)
          }
          for (let end = frameEnd(rest); end !== null; end = frameEnd(rest)) {
            const frame = rest.subarray(0, end)
            rest = rest.subarray(end)
            const isCounted = frame.includes('Notification"')
            const isDropped =
              isCounted && (dropping.passed + dropping.dropped) % every === every - 1
            if (isCounted) dropping[isDropped ? 'dropped' : 'passed'] += 1
            if (!isDropped) near.write(frame)
          }
        }
      }),
    )
    return dropping
  }

  get target(): string {
    return this.#proxy.target
  }

  close(): void {
    this.#proxy.close()
  }
}

/** End of the first frame of a server, which is never masked; null while it is not whole. */
function frameEnd(bytes: Buffer): number | null {
  if (bytes.length < 2) return null
  const short = bytes[1]! & 0x7f
  const head = short === 126 ? 4 : short === 127 ? 10 : 2
  if (bytes.length < head) return null
  const extended = () => (short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2)))
  const long = short < 126 ? short : extended()
  const end = head + long
  return bytes.length < end ? null : end
}

class Relay {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(target: string, answer: (near: Socket) => (chunk: Buffer) => void) {
    const { hostname, port } = new URL(target)
    this.#server = createServer({ noDelay: true }, (near) => {
      const far = connect({ host: hostname, port: Number(port), noDelay: true })
      const take = answer(near)
      far.on('data', take)
      near.on('data', (chunk) => far.write(chunk))
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(one)
        one.on('error', () => {})
        one.on('close', () => other.destroy())
      }
    })
  }

  static async open(
    target: string,
    answer: (near: Socket) => (chunk: Buffer) => void,
  ): Promise<Relay> {
    const proxy = new Relay(target, answer)
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get target(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }
}
