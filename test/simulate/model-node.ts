// A node of the virtual network with JSON-RPC: it answers probes by its slots and other methods as
// its world says, unless it is down, silent, slow or out of order.
import { Commitment } from '../../src/base/commitment.ts'
import type { Attempt, NetworkNode, NodeAnswer } from './virtual-network.ts'

export type Outcome = { readonly result: unknown } | { readonly error: object }

export interface ModelCall {
  readonly method: string
  readonly params: readonly unknown[]
}

export class ModelNode implements NetworkNode {
  /** Processed, confirmed and finalized. */
  slots: [number, number, number] = [0, 0, 0]
  /** How new connections end; those that are open stay. */
  attempt: Attempt = 'accept'
  isSilent = false
  status = 200
  latencyMs = 5
  readonly #answer: (call: ModelCall, node: ModelNode) => Outcome
  readonly #random: () => number

  constructor(answer: (call: ModelCall, node: ModelNode) => Outcome, random: () => number) {
    this.#answer = answer
    this.#random = random
  }

  /** Nothing is wrong with it. */
  heal(): void {
    this.attempt = 'accept'
    this.isSilent = false
    this.status = 200
    this.latencyMs = 5
  }

  connect(): { readonly afterMs: number; readonly attempt: Attempt } {
    return { afterMs: 1, attempt: this.attempt }
  }

  answer(body: string): NodeAnswer | null {
    if (this.isSilent) return null
    const afterMs = this.latencyMs * (0.5 + this.#random())
    if (this.status !== 200) return { afterMs, response: { status: this.status, body: 'no' } }
    const asked = JSON.parse(body)
    const answers = Array.isArray(asked) ? asked.map((one) => this.#one(one)) : this.#one(asked)
    return { afterMs, response: { status: 200, body: JSON.stringify(answers) } }
  }

  #one({ id, method, params = [] }: ModelCall & { readonly id: unknown }): object {
    return { jsonrpc: '2.0', ...this.#outcome({ method, params }), id }
  }

  #outcome(call: ModelCall): Outcome {
    const [processed, confirmed] = this.slots
    if (call.method === 'getHealth') return { result: 'ok' }
    if (call.method === 'getMaxShredInsertSlot') return { result: processed }
    if (call.method === 'getGenesisHash') return { result: 'genesis' }
    if (call.method === 'getSlot') return { result: this.slots[commitmentOf(call)] }
    if (call.method === 'getLatestBlockhash') {
      const slot = commitmentOf(call) === Commitment.confirmed ? confirmed : this.slots[2]
      return { result: { context: { slot }, value: { blockhash: `hash${slot}` } } }
    }
    return this.#answer(call, this)
  }
}

/** As its config names it; finalized by default. */
export function commitmentOf({ params }: ModelCall): Commitment {
  const { commitment = 'finalized' } = (params.at(-1) ?? {}) as { commitment?: string }
  return Commitment[commitment as keyof typeof Commitment]
}
