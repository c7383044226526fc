// Hands transactions to a set of nodes: to one good node, or to all with `broadcast`. Thread: main.
// Used by the tpu through the topology. The nodes are probed and stopped by their set.
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { type BufferedAnswer, bufferAnswer } from './buffered-answer.ts'
import { secretsOf } from './node-secrets.ts'
import type { Fate, TransactionSender } from './ports.ts'
import { RpcSender, type RpcSenderDeps } from './rpc-sender.ts'
import { askFates, type RpcAnswer, sendBody, sendWord } from './send-words.ts'
import type { UpstreamNode } from './upstream-node.ts'
import type { ChooseOptions, UpstreamSet } from './upstream-set.ts'
import type { Upstreams } from './upstreams.ts'

const answerMsMax = 5_000
/** Nodes that a read is tried at. */
const readNodesMax = 2

const unreached = refuse('unavailable', 'upstream', 'the upstream cannot be reached')

/** Senders for what `tpu.upstreams` names: a set, or the address of a single node. */
export function transactionSenders(
  names: readonly string[],
  upstreams: Upstreams,
  deps: RpcSenderDeps,
): (SetSender | RpcSender)[] {
  return names.map((name, index) => {
    const set = upstreams.set(name)
    if (set !== null) return new SetSender(set)
    return new RpcSender(`upstream ${index + 1}`, name, deps)
  })
}

export class SetSender implements TransactionSender {
  readonly name: string
  readonly #set: UpstreamSet

  constructor(set: UpstreamSet) {
    this.name = set.name
    this.#set = set
  }

  isUp(): boolean {
    return this.#set.choose('sendTransaction', { isOnce: true }) !== null
  }

  /** The set probes its nodes since its own start. */
  async warm(): Promise<void> {}

  async send(transaction: Uint8Array): Promise<Outcome<null>> {
    const body = sendBody(transaction)
    if (this.#set.section.broadcast) return this.#sendToAll(body)
    const node = this.#set.choose('sendTransaction', { isOnce: true })
    return node === null ? unreached : sendTo(node, body)
  }

  fates(signatures: readonly Uint8Array[]): Promise<readonly (Fate | null)[]> {
    return askFates(signatures, (body) => readNodes(this.#set, 'getSignatureStatuses', body))
  }

  async stop(): Promise<void> {}

  /** One node that takes it is enough; else a node's own word counts more than silence. */
  async #sendToAll(body: string): Promise<Outcome<null>> {
    const nodes = this.#set.all('sendTransaction')
    let left = nodes.length
    let worst: Outcome<null> = unreached
    if (left === 0) return worst
    return new Promise((resolve) => {
      for (const node of nodes)
        void sendTo(node, body).then((word) => {
          if (word.ok) resolve(word)
          else if (word.refusal.kind === 'rejected') worst = word
          left--
          if (left === 0) resolve(worst)
        })
    })
  }
}

/** Null when no node answered; a read that failed is retried at another node. Never rejects. */
export async function readNodes(
  set: UpstreamSet,
  method: string,
  body: string,
  options: ChooseOptions = {},
): Promise<RpcAnswer | null> {
  const asked: UpstreamNode[] = []
  while (asked.length < readNodesMax) {
    const node = set.choose(method, { ...options, not: asked })
    if (node === null) return null
    const answer = await ask(node, body, false)
    if (answer.ok) return answer.value
    asked.push(node)
  }
  return null
}

/** Once: a send is never given up for another node, since this one may have it already. */
async function sendTo(node: UpstreamNode, body: string): Promise<Outcome<null>> {
  const answer = await ask(node, body, true)
  return answer.ok ? sendWord(answer.value, secretsOf(node.addresses)) : answer
}

async function ask(node: UpstreamNode, body: string, isKept: boolean): Promise<Outcome<RpcAnswer>> {
  const answer = await bufferAnswer((listener) =>
    node.call(body, { timeoutMs: answerMsMax, isKept }, listener),
  )
  return answerOf(answer)
}

function answerOf(answer: BufferedAnswer): Outcome<RpcAnswer> {
  if (!answer.ok) return unreached
  const { status, body } = answer
  if (status === 429 || status >= 500)
    return refuse('unavailable', 'upstream', `the upstream answered ${status}`)
  try {
    const parsed: unknown = JSON.parse(body.toString('utf8'))
    // Some nodes answer errors with another status; what is no JSON object is no answer.
    if (typeof parsed === 'object' && parsed !== null) return accept(parsed as RpcAnswer)
  } catch {
    // Told below.
  }
  return refuse('unavailable', 'upstream', 'the answer of the upstream is no JSON')
}
