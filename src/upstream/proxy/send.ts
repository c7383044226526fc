// A call that changes something: one try at one node, or one at each with `broadcast`; never
// again, never beside, never shared. Thread: main. Called by proxy-set.ts.
import { type Answer, failure, rpcErrors } from '../../jsonrpc/build.ts'
import type { Call } from '../../jsonrpc/parse.ts'
import { bodyOf, newId } from '../call-body.ts'
import type { UpstreamNode } from '../upstream-node.ts'
import type { UpstreamSet } from '../upstream-set.ts'
import { Attempt, type TryFault, type TryOwner } from './attempt.ts'
import { sendUnknown, unhealthy } from './errors.ts'
import type { ProxyTally } from './meters.ts'

/** Only this may go to several nodes: a cluster takes a transaction once, an airdrop each time. */
const BROADCAST = 'sendTransaction'

export function send(call: Call, set: UpstreamSet, tally: ProxyTally): Answer | Promise<Answer> {
  const { method } = call
  const nodes = nodesFor(method, set)
  if (nodes.length > 0)
    return new Promise((resolve) => new Send(nodes.length, resolve).begin(call, nodes, set, tally))
  return set.serves(method) ? unhealthy : failure(rpcErrors.unknownMethod)
}

function nodesFor(method: string, set: UpstreamSet): readonly UpstreamNode[] {
  if (set.section.broadcast && method === BROADCAST) return set.all(method)
  const node = set.choose(method, { isOnce: true })
  return node === null ? [] : [node]
}

class Send implements TryOwner {
  readonly #resolve: (answer: Answer) => void
  #left: number
  /** The first word of a node that was no result, and what is known without one. */
  #refused: Answer | null = null
  #fault: Answer = unhealthy

  constructor(nodes: number, resolve: (answer: Answer) => void) {
    this.#left = nodes
    this.#resolve = resolve
  }

  begin(call: Call, nodes: readonly UpstreamNode[], set: UpstreamSet, tally: ProxyTally): void {
    const id = newId()
    const body = bodyOf(call, id)
    const { timeoutMs } = set.section
    for (const node of nodes)
      new Attempt(node, this, tally, id).begin(body, { timeoutMs, isKept: true })
  }

  /** The first good answer wins; the others still arrive at their nodes and are not heard. */
  answered(_attempt: Attempt, answer: Answer): void {
    if (answer.kind !== 'error') this.#resolve(answer)
    else this.#refused ??= answer
    this.#over()
  }

  failed(_attempt: Attempt, fault: TryFault, isSent: boolean): void {
    if (isSent && fault !== 'status') this.#fault = sendUnknown
    this.#over()
  }

  #over(): void {
    this.#left--
    if (this.#left === 0) this.#resolve(this.#refused ?? this.#fault)
  }
}
