// Nodes that an operator takes out of the rotation and lets return (`sluice node`).
// Kept in <data>/drained.json, so that a restart amid the work on a node does not bring it back. An
// entry is that of an address: after a change of the configuration no other node has it.
import { hash } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { UpstreamNode } from '../../upstream/node-pool/upstream-node.ts'
import type { Upstreams } from '../../upstream/node-pool/upstreams.ts'

export interface DrainRequest {
  /** Such as default/2. */
  readonly node: string
  readonly isDrained: boolean
  readonly who: string
  readonly reason: string
}

/** The problem, when nothing was changed. */
export type DrainAnswer =
  | { readonly problem: string }
  | { readonly node: string; readonly state: string; readonly waiting: number }

export class DrainedNodes {
  readonly #path: string
  readonly #log: Log
  readonly #upstreams: Upstreams
  /** Who drained it and why, by the digest of its addresses. */
  readonly #entries: Map<string, string>

  constructor(data: string, upstreams: Upstreams, log: Log) {
    this.#path = join(data, 'drained.json')
    this.#upstreams = upstreams
    this.#log = log.area('upstream')
    this.#entries = this.#read()
    for (const node of upstreams.sets().flatMap(({ nodes }) => nodes))
      node.setDrained(this.#entries.get(keyOf(node)) ?? null)
  }

  change({ node: name, isDrained, who, reason }: DrainRequest): DrainAnswer {
    const node = this.#upstreams.node(name)
    if (node === null) return { problem: `no node ${name}: npx --no -- sluice status shows them` }
    if (isDrained && !this.#canSpare(node))
      return { problem: `no other node of its set can take over from ${name}: nothing was changed` }
    const by = reason === '' ? `by ${who}` : `by ${who}: ${reason}`
    if (isDrained) this.#entries.set(keyOf(node), by)
    else this.#entries.delete(keyOf(node))
    this.#write()
    node.setDrained(isDrained ? by : null)
    this.#log.warn(isDrained ? 'node drained' : 'node resumed', { node: name, who, reason })
    return { node: name, state: node.state, waiting: node.waiting }
  }

  /** Whether calls and the geyser stream can go to another node. */
  #canSpare(node: UpstreamNode): boolean {
    const set = this.#upstreams.set(node.set)!
    const hasStream = set.nodes.some(
      (other) => other !== node && other.has('grpc') && other.state === 'up',
    )
    return (!node.has('rpc') || set.hasOther(node)) && (set.followed !== node || hasStream)
  }

  #read(): Map<string, string> {
    try {
      return new Map(Object.entries(JSON.parse(readFileSync(this.#path, 'utf8'))))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
        this.#log.warn('drained nodes could not be read', { reason: messageOf(error) })
      return new Map()
    }
  }

  #write(): void {
    const fresh = `${this.#path}.${process.pid}`
    writeFileSync(fresh, `${JSON.stringify(Object.fromEntries(this.#entries))}\n`, { mode: 0o600 })
    renameSync(fresh, this.#path)
  }
}

/** Addresses may contain keys of a provider. */
function keyOf({ set, addresses: { rpc, grpc } }: UpstreamNode): string {
  return hash('sha256', `${set} ${rpc} ${grpc}`, 'hex')
}
