// Model clients: what they hold after they have applied what was sent and what was retracted.
import { hash } from 'node:crypto'
import { ProtoReader, WIRE_BYTES } from '../../src/base/protobuf.ts'
import { type SolanaUpdate, slotStatus } from '../../src/chain/solana/updates.ts'
import type { FrameReader } from './void-readers.ts'

export const field = {
  account: 2,
  slot: 3,
  transaction: 4,
  block: 5,
  meta: 7,
  entry: 8,
  status: 10,
}
export const retractionField = 1001
/** Where a message has its slot. */
export const slotFields = new Map([
  [field.account, 2],
  [field.transaction, 2],
])

export interface Held {
  /** By slot: what was sent and not retracted. */
  readonly slots: Map<number, string[]>
  readonly reasons: string[]
  /** `slot/bank reason` of each retraction. */
  readonly retracted: string[]
}

export function numberIn(body: Uint8Array, wanted: number): number {
  const reader = new ProtoReader(body)
  while (reader.next()) if (reader.field === wanted) return reader.number
  return 0
}

export const markOf = (kind: number, body: Uint8Array) => `${kind} ${hash('sha1', body)}`

/** Applies the messages of a stream. */
export function apply(reader: FrameReader): Held {
  const held: Held = { slots: new Map(), reasons: [], retracted: [] }
  for (const message of reader.messages()) {
    const fields = new ProtoReader(message)
    while (fields.next()) {
      const kind = fields.field
      if (fields.wire !== WIRE_BYTES || kind === 1 || kind === 11) continue
      const body = fields.bytes
      const slot = numberIn(body, slotFields.get(kind) ?? 1)
      if (kind === retractionField) {
        held.slots.delete(slot)
        const reason = ['', 'handover', 'dead', 'fork', 'migration'][numberIn(body, 3)]!
        held.reasons.push(reason)
        held.retracted.push(`${slot}/${numberIn(body, 2)} ${reason}`)
        continue
      }
      const status = kind === field.slot ? numberIn(body, 3) : null
      const isOfBank = status === slotStatus.createdBank || status === slotStatus.processed
      if (status !== null && !isOfBank) continue
      const mark = status === null ? markOf(kind, body) : `${kind} ${status}`
      const marks = held.slots.get(slot)
      if (marks === undefined) held.slots.set(slot, [mark])
      else marks.push(mark)
    }
  }
  return held
}

export const isStatus = (mark: string) => mark.startsWith(`${field.slot} `)
export const isItem = (mark: string) => /^[248] /.test(mark)

/** The content by slot, without statuses, which a stream gets at every commitment. */
export const contentOf = ({ slots }: Held) =>
  [...slots]
    .map(([slot, marks]) => [slot, marks.filter((mark) => !isStatus(mark)).toSorted()] as const)
    .filter(([, marks]) => marks.length > 0)
    .toSorted(([a], [b]) => a - b)

export function itemsOf(updates: readonly SolanaUpdate[]): string[] {
  const kinds = { account: field.account, transaction: field.transaction, entry: field.entry }
  return updates.flatMap((one) =>
    one.kind === 'account' || one.kind === 'transaction' || one.kind === 'entry'
      ? [markOf(kinds[one.kind], one.body)]
      : [],
  )
}

interface Notified {
  readonly slots: ReadonlyMap<number, readonly string[]>
}

/** Applies the notifications of a subscription. */
export function applyTexts(texts: readonly string[]): Notified {
  const slots = new Map<number, string[]>()
  for (const text of texts) {
    const { result } = JSON.parse(text).params
    if (result.retracted !== undefined) slots.delete(result.retracted.slot)
    else {
      const slot: number = result.context?.slot ?? result.slot
      slots.set(slot, [...(slots.get(slot) ?? []), JSON.stringify(result)])
    }
  }
  return { slots: new Map([...slots].toSorted(([a], [b]) => a - b)) }
}
