// A frame of the shared event log as bytes.
//
//   {"kind":…,"key":…,"block":…,"at":…,"of":…} \n payload as it is sent to clients
import type { FrameFacts, FrameKind } from '../stream/encoded.ts'
import type { NewFrame } from '../stream/log.ts'

interface FrameHead {
  readonly kind: FrameKind
  readonly facts?: {
    readonly key?: string
    readonly block: number
    readonly at: string
    readonly of?: Readonly<Record<string, unknown>> & { readonly startedNs: string }
  }
}

const newline = 0x0a

export function encodeFrame({ kind, payload, facts }: Omit<NewFrame, 'sinceMs'>): Buffer {
  const head: FrameHead = facts === null ? { kind } : { kind, facts: factsText(facts) }
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), payload])
}

/** `sinceMs` is when this gateway has it. */
export function decodeFrame(bytes: Buffer, sinceMs: number): NewFrame {
  const end = bytes.indexOf(newline)
  const { kind, facts } = JSON.parse(bytes.toString('utf8', 0, end)) as FrameHead
  const payload = bytes.subarray(end + 1)
  return { kind, payload, sinceMs, facts: facts === undefined ? null : factsOf(facts) }
}

/** Names an event at every source of the chain; null for a frame that only this source has. */
export function keyOf({ kind, facts }: Pick<NewFrame, 'kind' | 'facts'>): string | null {
  return facts?.key === undefined ? null : `${kind}/${facts.key}`
}

function factsText({ blockNumber, atNs, key, block }: FrameFacts) {
  return {
    ...(key === undefined ? {} : { key }),
    block: blockNumber,
    at: String(atNs),
    ...(block === undefined ? {} : { of: { ...block, startedNs: String(block.startedNs) } }),
  }
}

function factsOf({ key, block, at, of }: NonNullable<FrameHead['facts']>): FrameFacts {
  return {
    blockNumber: block,
    atNs: BigInt(at),
    ...(key === undefined ? {} : { key }),
    // Reason for the cast: written by `factsText` of some gateway.
    ...(of === undefined
      ? {}
      : { block: { ...of, startedNs: BigInt(of.startedNs) } as NonNullable<FrameFacts['block']> }),
  }
}
