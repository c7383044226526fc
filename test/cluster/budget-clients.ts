// Clients that spend a subscription's credits at one gateway, one credit per call, through each
// kind of endpoint; and the load that measures how much of a plan is admitted.
import { once } from 'node:events'
import { Client, credentials, status } from '@grpc/grpc-js'
import { WebSocket } from 'ws'
import { call, withToken } from '../testkit/grpc-stage.ts'
import type { Server } from '../testkit/server.ts'

export type Verdict = 'admitted' | 'refused' | 'failed'
export const endpoints = ['rpc', 'websocket', 'grpc'] as const
export type Endpoint = (typeof endpoints)[number]

export interface BudgetClient {
  /** Credits that were spent to connect. */
  readonly toConnect: number
  /** Why calls failed. */
  readonly problems: Set<string>
  call(): Promise<Verdict>
  close(): void
}

const callersPerClient = 12
/** A caller tries again this long after a refusal. */
const pauseMs = 40

export function connectClient(
  server: Server,
  endpoint: Endpoint,
  token: string,
): Promise<BudgetClient> {
  return { rpc: connectRpc, websocket: connectWebSocket, grpc: connectGrpc }[endpoint](
    server,
    token,
  )
}

async function connectRpc(server: Server, token: string): Promise<BudgetClient> {
  const headers = { 'x-token': token, 'content-type': 'application/json' }
  const body = '{"jsonrpc":"2.0","id":1,"method":"getVersion"}'
  const problems = new Set<string>()
  return {
    toConnect: 0,
    problems,
    close() {},
    async call() {
      try {
        const answer = await fetch(server.url('rpc'), { method: 'POST', headers, body })
        const text = await answer.text()
        if (answer.status === 429) return 'refused'
        if (answer.ok && text.includes('"result"')) return 'admitted'
        problems.add(`${answer.status} ${text}`)
      } catch (error) {
        problems.add(`${error} ${error instanceof Error ? error.cause : ''}`)
      }
      return 'failed'
    },
  }
}

async function connectWebSocket(server: Server, token: string): Promise<BudgetClient> {
  const socket = new WebSocket(server.url('websocket'), { headers: { 'x-token': token } })
  const waiting = new Map<number, (verdict: Verdict) => void>()
  let id = 0
  socket.on('message', (data) => {
    const answer = JSON.parse(String(data)) as { id: number; result?: unknown; error?: object }
    const verdict = answer.result === undefined ? 'refused' : 'admitted'
    waiting.get(answer.id)?.(verdict)
    waiting.delete(answer.id)
  })
  const problems = new Set<string>()
  socket.on('close', (code) => {
    problems.add(`closed with ${code}`)
    for (const resolve of waiting.values()) resolve('failed')
    waiting.clear()
  })
  await once(socket, 'open')
  return {
    toConnect: 1,
    problems,
    close: () => socket.terminate(),
    call: () =>
      new Promise((resolve) => {
        waiting.set(++id, resolve)
        socket.send(`{"jsonrpc":"2.0","id":${id},"method":"getVersion"}`)
      }),
  }
}

async function connectGrpc(server: Server, token: string): Promise<BudgetClient> {
  const { host } = new URL(server.url('grpc'))
  const client = new Client(host, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  })
  const metadata = withToken(token)
  const problems = new Set<string>()
  return {
    toConnect: 0,
    problems,
    close: () => client.close(),
    async call() {
      const { code, details } = await call(client, 'Ping', {}, metadata)
      if (code === status.RESOURCE_EXHAUSTED) return 'refused'
      if (code === status.OK) return 'admitted'
      problems.add(`${code} ${details}`)
      return 'failed'
    },
  }
}

/** Counts what is admitted while clients call as often as they may. */
export class BudgetLoad {
  readonly counts: Record<Verdict, number> = { admitted: 0, refused: 0, failed: 0 }
  readonly #clients: readonly BudgetClient[]
  readonly #startMs = performance.now()
  #running: Promise<unknown>[] = []
  #isOver = false

  constructor(clients: readonly BudgetClient[]) {
    this.#clients = clients
  }

  /** Why calls failed. */
  get problems(): string[] {
    return this.#clients.flatMap(({ problems }) => [...problems])
  }

  get elapsedMs(): number {
    return performance.now() - this.#startMs
  }

  /** What a plan of 100 a second with a burst of 200 allows by now. */
  get allowed(): number {
    return 200 + this.elapsedMs / 10
  }

  /** The part of the plan that was used; 1 where the machine, not the budget, was the limit. */
  get used(): number {
    const { admitted, refused } = this.counts
    return refused < admitted / 10 ? 1 : admitted / this.allowed
  }

  /** Starts the callers of the clients; each calls while `pick` selects its client. */
  saturate(pick: (client: number) => boolean = () => true): this {
    this.#running = [...this.#clients.entries()].flatMap(([at, client]) =>
      Array.from({ length: callersPerClient }, async () => {
        while (!this.#isOver)
          if (!pick(at) || (await this.once(client)) !== 'admitted')
            await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }),
    )
    return this
  }

  async once(client: BudgetClient): Promise<Verdict> {
    const verdict = await client.call()
    this.counts[verdict]++
    return verdict
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#running)
  }
}
