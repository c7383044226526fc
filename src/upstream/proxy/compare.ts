// Sends a sample of the reads to further nodes (`compare` of a set) and counts results that differ.
// The customer does not wait for it. Results are compared by value, without their context, where
// they can be equal: at the same slot, or of what never changes.
import { isDeepStrictEqual } from 'node:util'
import type { Answer } from '../../base/jsonrpc/build.ts'
import { LogThrottle } from '../../base/telemetry/log.ts'
import { bodyOf } from '../call-body.ts'
import { callNode } from '../node-pool/call-node.ts'
import type { UpstreamNode } from '../node-pool/upstream-node.ts'
import type { UpstreamSet } from '../node-pool/upstream-set.ts'
import type { ProxyTally } from './meters.ts'
import type { ReadRequest, ReadResult } from './proxy-read.ts'

/** One read of so many is compared. */
export const sampleEvery = 100
/** Comparisons at once; reads beyond are not compared. */
const comparisonsMax = 4
const answerBytesMax = 262_144

export class AnswerComparison {
  readonly #set: UpstreamSet
  readonly #tally: ProxyTally
  readonly #throttle = new LogThrottle()
  #reads = 0
  #running = 0

  constructor(set: UpstreamSet, tally: ProxyTally) {
    this.#set = set
    this.#tally = tally
  }

  /** Takes what it needs of the answer before it returns; never throws. */
  observe(read: ReadRequest & { readonly isLasting: boolean }, { answer, node }: ReadResult): void {
    if (this.#set.section.compare < 2 || node === null || ++this.#reads % sampleEvery !== 0) return
    const text = textOf(answer)
    if (text === null || this.#running >= comparisonsMax) return
    this.#running++
    void this.#compare(read, node, text).finally(() => this.#running--)
  }

  async #compare(
    { call, isLasting }: ReadRequest & { readonly isLasting: boolean },
    node: UpstreamNode,
    text: string,
  ): Promise<void> {
    const own = parsedOf(text)
    const nodes = this.#set.all(call.method).filter((other) => other !== node)
    const others = nodes.slice(0, this.#set.section.compare - 1).map(async (other) => {
      const reply = await callNode(other, bodyOf(call))
      const given = reply.ok ? partsOf(reply.value.result) : null
      const isComparable = isLasting ? isFound(own) && isFound(given) : isSameSlot(own, given)
      if (own === null || given === null || !isComparable) return this.#tally.compared.skipped++
      if (isDeepStrictEqual(own.value, given.value)) return this.#tally.compared.equal++
      this.#tally.compared.different++
      this.#report(call.method, node, other)
    })
    await Promise.all(others)
  }

  #report(method: string, { name }: UpstreamNode, other: UpstreamNode): void {
    const { differences } = this.#tally
    const known = differences.has(method) ? method : 'other'
    differences.set(known, (differences.get(known) ?? 0) + 1)
    if (this.#throttle.allows(known, other.nowMs()))
      this.#set.log.warn('nodes answer differently', {
        method: known,
        nodes: `${name} ${other.name}`,
      })
  }
}

interface Parts {
  readonly slot: unknown
  readonly value: unknown
}

function isSameSlot(a: Parts | null, b: Parts | null): boolean {
  return typeof a?.slot === 'number' && a.slot === b?.slot
}

/** One node may not have it yet. */
function isFound(parts: Parts | null): boolean {
  return parts !== null && parts.value !== null
}

function parsedOf(text: string): Parts | null {
  try {
    return partsOf(JSON.parse(text))
  } catch {
    return null
  }
}

/** A result without its context, and the slot in that. */
function partsOf(result: unknown): Parts | null {
  if (result === undefined) return null
  if (typeof result !== 'object' || result === null || !('context' in result))
    return { slot: null, value: result }
  const { context, ...rest } = result
  return { slot: (context as { slot?: unknown } | null)?.slot, value: rest }
}

/** A copy; null for an error, and for what is long. */
function textOf(answer: Answer): string | null {
  if (answer.kind === 'text') return answer.text
  if (answer.kind !== 'bytes') return null
  const bytes = answer.pieces.reduce((sum, { length }) => sum + length, 0)
  return bytes > answerBytesMax ? null : Buffer.concat(answer.pieces).toString()
}
