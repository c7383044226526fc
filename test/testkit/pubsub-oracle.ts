// Subscriptions of a client that loses its connections, beside the same ones of a connection to the
// node itself: from the slot after the first one on, both got the same.
import { expect } from 'vitest'
import { WebSocket } from 'ws'
import type { PubsubClient, PubsubTopic } from '../../src/client/node.ts'
import type { SolanaNode } from './solana-node.ts'
import { Client } from './subscription-stage.ts'
import { until } from './until.ts'

const commitments = ['processed', 'confirmed', 'finalized'] as const
const subscriptions: readonly (readonly [PubsubTopic, readonly unknown[]])[] = [
  ...commitments.map((commitment) => ['logs', ['all', { commitment }]] as const),
  ...commitments.map(
    (commitment) => ['program', ['1'.repeat(32), { commitment, encoding: 'base64' }]] as const,
  ),
  ['root', []],
  ['slot', []],
  ['block', ['all', { commitment: 'confirmed', transactionDetails: 'none' }]],
]

interface Followed {
  readonly topic: string
  readonly results: unknown[]
  readonly id: number
}

export class PubsubOracle {
  /** Gaps and refusals that the client was told. */
  readonly problems: unknown[] = []
  readonly #socket: WebSocket
  readonly #client: Client
  readonly #followed: Followed[] = []

  private constructor(socket: WebSocket) {
    this.#socket = socket
    this.#client = new Client(socket)
  }

  static async open(node: SolanaNode, client: PubsubClient): Promise<PubsubOracle> {
    const headers = { 'x-token': node.token }
    const socket = new WebSocket(node.server.url('websocket'), { headers })
    socket.on('error', () => {})
    await until(() => socket.readyState === WebSocket.OPEN, 'the node')
    const oracle = new PubsubOracle(socket)
    const onProblem = (error: unknown) => void oracle.problems.push(error)
    const options = { onGap: onProblem, onError: onProblem }
    for (const [topic, params] of subscriptions) {
      const id = await oracle.#client.subscribe(topic, ...params)
      const results: unknown[] = []
      client.subscribe(topic, params, (result) => void results.push(result), options)
      oracle.#followed.push({ topic, results, id })
    }
    await until(() => oracle.#followed.every(({ results }) => results.length > 3), 'a start')
    return oracle
  }

  /** Waits for what follows the slot, and compares everything up to it. */
  async expectNothingLost(last: number): Promise<void> {
    const isBehind = (all: readonly unknown[]) => slotIn(all.at(-1) as never) <= last
    const behind = () =>
      this.#followed.filter(({ results, id }) => isBehind(results) || isBehind(this.#client.of(id)))
    await until(() => behind().length === 0, `slot ${last}`).catch((error: Error) => {
      const topics = behind().map(({ topic, results }) => `${topic} at ${slotIn(results.at(-1))}`)
      throw new Error(`${error.message}; ${topics.join(', ')}`)
    })
    for (const { topic, results, id } of this.#followed) {
      const [expected, names] = [this.#client.of(id).map(nameOf), results.map(nameOf)]
      // Neither has all of the slot in which it began.
      const first = Math.max(slotOf(expected[0]!), slotOf(names[0]!))
      const isDue = (name: string) => slotOf(name) > first && slotOf(name) <= last
      const [own, theirs] = [names.filter(isDue), expected.filter(isDue)]
      expect(theirs.length, topic).toBeGreaterThan(10)
      expect(own.toSorted(), topic).toEqual(theirs.toSorted())
    }
  }

  close(): void {
    this.#socket.terminate()
  }
}

/** What identifies a notification: a signature, an account in a slot, a slot. */
// biome-ignore lint/suspicious/noExplicitAny: results of every kind.
function nameOf(result: any): string {
  if (typeof result !== 'object') return String(result)
  const { context, value } = result
  return value === undefined
    ? `${result.slot} ${result.parent}`
    : `${context.slot} ${value.signature ?? value.pubkey ?? ''}`
}

// biome-ignore lint/suspicious/noExplicitAny: results of every kind.
function slotIn(result: any): number {
  return typeof result === 'object' ? (result?.context ?? result).slot : Number(result)
}

function slotOf(name: string): number {
  return Number(name.split(' ')[0])
}
