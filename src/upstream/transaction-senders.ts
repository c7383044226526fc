// Sends transactions to a set of nodes: to one good node, or to all with `broadcast`.
// `tpu.upstreams` names sets, or addresses of single nodes: such an address becomes a set of one
// node, probed like any other.
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { encodeBase58 } from '../chain/solana/base58.ts'
import { bodyOf, firstGood } from './call-body.ts'
import { singleNodeSet } from './config.ts'
import type { NodeSecrets } from './node-pool/node-secrets.ts'
import type { UpstreamNode } from './node-pool/upstream-node.ts'
import {
  callNode,
  type RpcReply,
  readNodes,
  type SetDeps,
  type UpstreamSet,
  unreached,
} from './node-pool/upstream-set.ts'
import { Upstreams } from './node-pool/upstreams.ts'
import type { Fate, TransactionSender } from './ports.ts'

/** As many signatures as getSignatureStatuses takes. */
const signaturesMax = 256
/** Errors to retry later: the node lags, or the rate limit of an endpoint like ours. */
const retryableCodes: ReadonlySet<number> = new Set([-32005, -32429])

export function transactionSenders(
  names: readonly string[],
  upstreams: Upstreams,
  deps: SetDeps,
): SetSender[] {
  return names.map((name, index) => {
    const set = upstreams.set(name)
    if (set !== null) return new SetSender(set)
    // The address may contain a key of the provider: only this name appears in logs.
    const own = `upstream ${index + 1}`
    const single = new Upstreams({ [own]: singleNodeSet({ rpc: name }) }, deps)
    return new SetSender(single.set(own)!, single)
  })
}

export class SetSender implements TransactionSender {
  readonly name: string
  readonly #set: UpstreamSet
  readonly #own: Upstreams | null

  /** `own` are the upstreams that exist for this sender only. */
  constructor(set: UpstreamSet, own: Upstreams | null = null) {
    this.name = set.name
    this.#set = set
    this.#own = own
  }

  isUp(): boolean {
    return this.#set.pick('sendTransaction', { isSend: true }) !== null
  }

  /** Probes the nodes, so that the endpoint opens with their state known. */
  async warm(): Promise<void> {
    await this.#own?.start()
  }

  async send(transaction: Uint8Array): Promise<Outcome<null>> {
    const body = sendBody(transaction)
    const node = this.#set.pick('sendTransaction', { isSend: true })
    if (node === null) return unreached
    if (!this.#set.section.broadcast) return sendTo(node, body)
    const sends = this.#set.all('sendTransaction').map((each) => sendTo(each, body))
    const accepted = await firstGood(sends, ({ ok }) => ok)
    if (accepted !== null) return accepted
    // The error of a node is worth more than a missing response.
    const refused = await Promise.all(sends)
    return refused.find((one) => !one.ok && one.refusal.kind === 'rejected') ?? unreached
  }

  async fates(signatures: readonly Uint8Array[]): Promise<readonly (Fate | null)[]> {
    const found: (Fate | null)[] = []
    for (let at = 0; at < signatures.length; at += signaturesMax) {
      const some = signatures.slice(at, at + signaturesMax)
      const names = some.map((signature) => `"${encodeBase58(signature)}"`).join(',')
      const body = bodyOf({ method: 'getSignatureStatuses', paramsText: `[[${names}]]` })
      const reply = await readNodes(this.#set, 'getSignatureStatuses', body)
      const { value } = (reply?.result ?? {}) as { value?: unknown }
      const list = Array.isArray(value) ? value : []
      for (const index of some.keys()) found.push(fateOf(list[index]))
    }
    return found
  }

  async stop(): Promise<void> {
    await this.#own?.stop()
  }
}

/** Preflight and retries are ours: the node only forwards it. */
function sendBody({ buffer, byteOffset, length }: Uint8Array): string {
  const text = Buffer.from(buffer, byteOffset, length).toString('base64')
  const options = '{"encoding":"base64","skipPreflight":true,"maxRetries":0}'
  return bodyOf({ method: 'sendTransaction', paramsText: `["${text}",${options}]` })
}

async function sendTo(node: UpstreamNode, body: string): Promise<Outcome<null>> {
  const reply = await callNode(node, body, { isSend: true })
  return reply.ok ? outcomeOf(reply.value, node.secrets) : reply
}

function outcomeOf({ error }: RpcReply, secrets: NodeSecrets): Outcome<null> {
  if (error === undefined || error === null) return accept(null)
  const { code } = error
  // Codes above the range of the chain's own errors are limits of providers.
  if (retryableCodes.has(code) || code > -32000)
    return refuse('unavailable', 'upstream', 'the upstream cannot take it now')
  if (errOf(error.data) === 'AlreadyProcessed') return accept(null)
  const message = typeof error.message === 'string' ? error.message : 'no reason given'
  const redacted = secrets.redactError({ code, message, data: error.data })
  const err = errOf(redacted.data)
  const data = err === undefined ? {} : { data: { err } }
  return refuse('rejected', 'upstream', redacted.message, data)
}

function errOf(data: unknown): unknown {
  return ((data ?? {}) as { err?: unknown }).err
}

function fateOf(status: unknown): Fate | null {
  if (typeof status !== 'object' || status === null) return null
  const { slot, err, confirmationStatus } = status as Readonly<Record<string, unknown>>
  if (confirmationStatus !== 'confirmed' && confirmationStatus !== 'finalized') return null
  return typeof slot === 'number' ? { slot, isSuccess: err === null || err === undefined } : null
}
