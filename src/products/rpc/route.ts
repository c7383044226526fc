// Which method goes where. Thread: main. Called by handle.ts once per call.
// Methods that need no chain stand here; those of the chain come in as tables of the same type.
// Callers who belong to nodes of their own are answered there, whatever they ask.
import { encodedText, failure } from '../../jsonrpc/build.ts'
import {
  type Answering,
  type Elsewhere,
  Fork,
  Methods,
  type MethodTable,
} from '../../jsonrpc/methods.ts'
import type { Caller } from './handle.ts'

/** Answer of getVersion: Solana's two fields, and ours beside them. */
export interface NodeVersion {
  readonly 'solana-core': string
  readonly 'feature-set': number
  readonly sluice: string
}

export interface NodeFacts {
  readonly version: NodeVersion
  /** Slots behind the cluster; 0 is healthy. Null when it cannot be known. */
  slotsBehind(): number | null
}

export function routeMethods(
  facts: NodeFacts,
  chain: readonly MethodTable<Caller>[],
  elsewhere: Elsewhere<Caller> | null = null,
): Answering<Caller> {
  const version = encodedText(JSON.stringify(facts.version))
  const healthy = encodedText('"ok"')
  const own: MethodTable<Caller> = {
    getVersion: () => version,
    getHealth: () => {
      const behind = facts.slotsBehind()
      if (behind === 0) return healthy
      return failure({
        code: -32005,
        message: behind === null ? 'Node is unhealthy' : `Node is behind by ${behind} slots`,
        data: { numSlotsBehind: behind },
      })
    },
  }
  const here = new Methods(own, ...chain)
  return elsewhere === null ? here : new Fork(elsewhere, here)
}
