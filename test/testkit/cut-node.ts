// A node of a set that can be killed and frozen alone: RPC and geyser of a devnode through relays of
// its own. Several of them in front of one devnode are nodes of one chain.
import type { Devnode } from './devnode.ts'
import type { NodeAddress } from './solana-node.ts'
import { TcpCut } from './tcp-cut.ts'

export class CutNode implements NodeAddress {
  readonly token = ''
  readonly server = { url: (name: string) => `http://${this.#wires[name]!.target}` }
  readonly #wires: Readonly<Record<string, TcpCut>>

  private constructor(wires: Readonly<Record<string, TcpCut>>) {
    this.#wires = wires
  }

  static async of(devnode: Pick<Devnode, 'url'>): Promise<CutNode> {
    const names = ['rpc', 'grpc']
    const wires = await Promise.all(
      names.map((name) => TcpCut.open(new URL(devnode.url(name)).host)),
    )
    return new CutNode(Object.fromEntries(names.map((name, at) => [name, wires[at]!])))
  }

  get url(): string {
    return this.server.url('rpc')
  }

  /** Connections break and new ones are refused, as after kill -9. */
  kill(isKilled: boolean): void {
    for (const wire of Object.values(this.#wires)) wire.refuse(isKilled)
  }

  /** Connections stay and nothing moves on them, as after SIGSTOP. */
  freeze(isFrozen: boolean): void {
    for (const wire of Object.values(this.#wires)) wire.hold(isFrozen)
  }

  /** Connections stay, and their bytes vanish: a half-open network. */
  swallow(isSwallowing: boolean): void {
    for (const wire of Object.values(this.#wires)) wire.swallow(isSwallowing)
  }

  /** What it sends arrives this much later. */
  delay(ms: number): void {
    for (const wire of Object.values(this.#wires)) wire.delay(ms)
  }

  /** Its connections break once. */
  cut(): void {
    for (const wire of Object.values(this.#wires)) wire.cut()
  }

  close(): void {
    for (const wire of Object.values(this.#wires)) wire.close()
  }
}
