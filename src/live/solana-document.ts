// Checks that an answer is a document of GET /v1/solana before anything is drawn from it: one of
// another version, of a proxy or cut off is named as that, never shown. Thread: browser; no DOM.
import type { Solana } from '../client/frames.ts'

type Check = (value: unknown) => boolean

/** More than the server ever lists. */
const rowsMax = 256

const text: Check = (value) => typeof value === 'string' && value.length <= 256
const flag: Check = (value) => typeof value === 'boolean'
const number: Check = (value) => typeof value === 'number' && Number.isFinite(value)
const orNull = (check: Check) => (value: unknown) => value === null || check(value)
const listOf = (check: Check) => (value: unknown) =>
  Array.isArray(value) && value.length <= rowsMax && value.every(check)
/** Fields with a `?` may be absent; unknown ones are of a later version, and ignored. */
const shape = (fields: Readonly<Record<string, Check>>) => (value: unknown) =>
  typeof value === 'object' &&
  value !== null &&
  Object.entries(fields).every(([key, check]) => {
    const found = (value as Record<string, unknown>)[key.replace('?', '')]
    return found === undefined ? key.endsWith('?') : check(found)
  })
const numbers = (...names: string[]) => Object.fromEntries(names.map((name) => [name, number]))
const numbersOrNull = (...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, orNull(number)]))

const block = shape({
  ...numbers('slot', 'transactions'),
  ...numbersOrNull('votes', 'failed', 'fee_lamports', 'median_fee_lamports', 'cost_units'),
})
const stream = shape({
  up: flag,
  ...numbers('slot_ms', 'cost_limit'),
  ...numbersOrNull('age_ms', 'processed', 'confirmed', 'finalized', 'tps'),
  blocks: listOf(block),
})
const node = shape({
  ...{ node: text, region: text, state: text },
  ...numbersOrNull('slot', 'lag_slots', 'first_share'),
})
const calls = shape({
  ...numbers('calls', 'errors', 'refused'),
  ...numbersOrNull('open', 'subscriptions', 'sent'),
})
const landing: Check = (value) =>
  Array.isArray(value) && value.length === 2 && orNull(number)(value[0]) && number(value[1])
const tpu = shape({
  ...numbers('accepted', 'rejected', 'landed', 'expired', 'failed'),
  ...numbers('in_flight', 'queued', 'senders_up'),
  land_seconds: listOf(landing),
})
const shredstream = shape({
  up: flag,
  ...numbers('received', 'accepted', 'sent', 'dropped', 'rebuilt', 'destinations'),
})
const document = shape({
  at_ms: number,
  sets: listOf(shape({ set: text, stream: orNull(stream), 'nodes?': listOf(node) })),
  'left_out?': shape(numbers('sets', 'nodes')),
  'products?': shape({
    ...{ 'rpc?': calls, 'websocket?': calls, 'grpc?': calls },
    ...{ 'tpu?': tpu, 'shredstream?': shredstream },
  }),
})

export function isSolana(value: unknown): value is Solana {
  return document(value)
}
