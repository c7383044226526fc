// Nodes without sockets for the PubSub relay: what was asked of them is kept, and a test says what
// they answer, notify and when they are gone.

import type { RpcError } from '../../src/jsonrpc/build.ts'
import type { AnswerListener, CallOptions } from '../../src/upstream/node-call.ts'
import type { NodeState } from '../../src/upstream/node-health.ts'
import type { PubsubListener } from '../../src/upstream/ports.ts'
import type { PubsubNode, PubsubSet } from '../../src/upstream/pubsub/node.ts'
import type {
  Connect,
  Loss,
  NodeAnswer,
  NodeConnection,
  SocketListener,
} from '../../src/upstream/pubsub/node-socket.ts'

export class FakeNode implements PubsubNode {
  readonly name: string
  readonly addresses = { ws: 'ws://node', xToken: '' }
  weight = 1
  state: NodeState = 'up'
  denied = new Set<string>()
  /** Every connection there was; the last one is the present one. */
  readonly connections: FakeConnection[] = []
  /** What JSON-RPC answers: the text, or null for a node that does not. */
  rpc: (method: string, params: unknown[]) => string | null = () => null
  readonly calls: { method: string; params: unknown[] }[] = []

  constructor(name: string) {
    this.name = name
  }

  get socket(): FakeConnection {
    return this.connections.at(-1)!
  }

  has(): boolean {
    return true
  }

  serves(method: string): boolean {
    return !this.denied.has(method)
  }

  call(body: string, _options: CallOptions, listener: AnswerListener) {
    const { method, params } = JSON.parse(body)
    this.calls.push({ method, params })
    queueMicrotask(() => {
      const answer = this.rpc(method, params)
      if (answer === null) {
        listener.onFault('broken', true)
        return
      }
      listener.onHead(200, {})
      listener.onData(Buffer.from(answer))
      listener.onEnd()
    })
    return { pause() {}, resume() {}, abort() {} }
  }
}

interface Asked {
  readonly method: string
  readonly params: string
  readonly answered: (answer: NodeAnswer) => void
}

export class FakeConnection implements NodeConnection {
  readonly asked: Asked[] = []
  /** Calls that went well, and under what id. */
  readonly answered: { readonly method: string; readonly params: string; readonly id: string }[] =
    []
  isClosed = false
  /** Calls that the node owes an answer to. */
  unanswered = 0
  /** False leaves calls unanswered until `answer`. */
  isAnswering = true
  /** Errors by method. */
  readonly errors = new Map<string, RpcError>()
  readonly #listener: SocketListener
  #nextId: number

  constructor(listener: SocketListener, firstId: number) {
    this.#listener = listener
    this.#nextId = firstId
    queueMicrotask(() => listener.opened())
  }

  ask(method: string, params: string, answered: Asked['answered']): void {
    const asked = { method, params, answered }
    this.asked.push(asked)
    this.unanswered++
    if (this.isAnswering) queueMicrotask(() => this.answer(asked))
  }

  answer({ method, params, answered }: Asked): void {
    if (this.isClosed) return
    this.unanswered--
    const error = this.errors.get(method)
    if (error !== undefined) {
      answered({ ok: false, error })
      return
    }
    const id = String(this.#nextId++)
    this.answered.push({ method, params, id })
    answered({ ok: true, result: id })
  }

  notify(id: number, result: string): void {
    this.#listener.notice(String(id), result)
  }

  lose(loss: Loss = 'closed'): void {
    this.isClosed = true
    this.#listener.lost(loss)
  }

  /** Calls of that kind, as `accountSubscribe [..]`. */
  texts(): string[] {
    return this.asked.map(({ method, params }) => `${method} ${params}`)
  }

  tick(): void {}

  close(): void {
    this.isClosed = true
  }
}

export class FakeSet implements PubsubSet {
  readonly name = 'default'
  readonly nodes: FakeNode[]

  constructor(count: number) {
    this.nodes = Array.from({ length: count }, (_, at) => new FakeNode(`default/${at + 1}`))
  }

  choose(): FakeNode | null {
    return this.nodes.find(({ state }) => state === 'up') ?? null
  }

  /** Each connection numbers from another thousand, so that ids of two never meet. */
  readonly connect: Connect = (node, listener) => {
    const fake = node as FakeNode
    const firstId = 1000 * (this.nodes.indexOf(fake) + 1) + 100 * fake.connections.length
    const connection = new FakeConnection(listener, firstId)
    fake.connections.push(connection)
    return connection
  }
}

/** Keeps what it is told. */
export class Told implements PubsubListener {
  opens = 0
  error: RpcError | null = null
  readonly results: string[] = []
  readonly lasts: string[] = []

  opened(): void {
    this.opens++
  }

  refused(error: RpcError): void {
    this.error = error
  }

  notice(result: string, isLast: boolean): void {
    this.results.push(result)
    if (isLast) this.lasts.push(result)
  }
}
