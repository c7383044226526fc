// Reads the params of a Solana call and its commitment, with the errors that a validator gives.
// A method reads everything first and looks at `problem` once: after the first problem every read
// yields something harmless.
import { Commitment, commitmentNamed, commitmentNames } from '../../base/commitment.ts'
import type { Refusal } from '../../base/errors.ts'
import type { Answer, RpcError } from '../../base/jsonrpc/build.ts'
import { encodedText, failure, rpcErrors } from '../../base/jsonrpc/build.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import type { Variants } from '../../base/serde-text.ts'
import {
  invalidType,
  readVariant,
  unknownVariant,
  wholeNumberProblem,
} from '../../base/serde-text.ts'
import { decodeBase58, keyOfText } from '../solana/base58.ts'
import type { SlotReads } from './chain-reads.ts'

// Errors of Solana's RPC with a validator's own codes and messages.
// Client libraries match on both. Codes of our own (401, 429) never fall among these.

export function invalidParams(message: string): RpcError {
  return { code: rpcErrors.invalidParams.code, message }
}

export const rpcFaults = {
  blockCleanedUp: (slot: number, first: number): RpcError => ({
    code: -32001,
    message: `Block ${slot} cleaned up, does not exist on node. First available block: ${first}`,
  }),
  blockNotAvailable: (slot: number | bigint): RpcError => ({
    code: -32004,
    message: `Block not available for slot ${slot}`,
  }),
  slotSkipped: (slot: number): RpcError => ({
    code: -32007,
    message: `Slot ${slot} was skipped, or missing due to ledger jump to recent snapshot`,
  }),
  noSnapshot: { code: -32008, message: 'No snapshot' },
  unsupportedVersion: (version: number): RpcError => ({
    code: -32015,
    message:
      `Transaction version (${version}) is not supported by the requesting client. ` +
      'Please try the request again with the following configuration parameter: ' +
      `"maxSupportedTransactionVersion": ${version}`,
  }),
  minContextSlot: (contextSlot: number): RpcError => ({
    code: -32016,
    message: 'Minimum context slot has not been reached',
    data: { contextSlot },
  }),
  transactionNotFound: (signature: string): RpcError => ({
    code: -32020,
    message: `Transaction ${signature} not found`,
  }),
  base58TooLarge: {
    code: -32600,
    message:
      'Encoded binary (base 58) data should be less than 128 bytes, please use Base64 encoding.',
  },
} as const

/** The error of a refusal, where the method has no error of its own for it. */
export function refusalError(refusal: Refusal): RpcError {
  if (refusal.kind === 'unavailable') return rpcErrors.nodeUnhealthy
  if (refusal.kind === 'invalid') return invalidParams(refusal.message)
  return { code: rpcErrors.internal.code, message: refusal.message }
}

const keyTextMax = 44
const signatureTextMax = 88
const none: readonly unknown[] = []
const zeroKey = new Uint8Array(32)

export class Params {
  readonly #list: readonly unknown[]
  problem: RpcError | null = null

  constructor(call: Call, { least, most }: { readonly least: number; readonly most: number }) {
    const params = exactParams(call)
    this.#list = Array.isArray(params) ? params : none
    if (params !== undefined && !Array.isArray(params)) this.fail('`params` should be an array')
    else if (most === 0 && this.#list.length > 0)
      this.fail('Invalid parameters: No parameters were expected')
    else if (this.#list.length < least)
      this.fail(`\`params\` should have at least ${least} argument(s)`)
    else if (this.#list.length > most)
      this.refuse({
        ...invalidParams(`Invalid parameters: Expected from ${least} to ${most} parameters.`),
        data: JSON.stringify(`Got: ${this.#list.length}`),
      })
  }

  /** Keeps the first problem. */
  refuse(error: RpcError): void {
    this.problem ??= error
  }

  fail(message: string): void {
    this.refuse(invalidParams(message))
  }

  /** A problem in the words of a validator's deserializer. */
  malformed(problem: string): void {
    this.fail(`Invalid params: ${problem}.`)
  }

  mismatch(found: unknown, expected: string): void {
    this.malformed(invalidType(found, expected))
  }

  /** For a param that a validator reads as one of several forms: it does not say what was wrong. */
  untagged<T>(name: string, read: () => T): T {
    const known = this.problem
    const value = read()
    if (this.problem === known) return value
    this.problem = invalidParams(
      `Invalid params: data did not match any variant of untagged enum ${name}.`,
    )
    return value
  }

  at(index: number): unknown {
    return this.#list[index] ?? null
  }

  text(index: number): string {
    return this.textOf(this.at(index))
  }

  key(index: number): Uint8Array {
    return this.keyOf(this.text(index))
  }

  keyOf(text: string): Uint8Array {
    const known = keyOfText(text)
    return known ?? this.#decoded(text, { bytes: 32, textMax: keyTextMax }) ?? zeroKey
  }

  hash(index: number): Uint8Array {
    return this.#decoded(this.text(index), { bytes: 32, textMax: keyTextMax }, '') ?? zeroKey
  }

  signature(index: number): Uint8Array {
    return this.signatureOf(this.text(index))
  }

  signatureOf(text: string): Uint8Array {
    return this.#decoded(text, { bytes: 64, textMax: signatureTextMax }) ?? new Uint8Array(64)
  }

  u64(index: number, type = 'u64'): number {
    return Number(this.exactU64(index, type))
  }

  /** A bigint beyond 2^53, for errors that repeat it and for amounts. */
  exactU64(index: number, type = 'u64'): number | bigint {
    return this.number(this.at(index), type) ?? 0
  }

  optionalU64(index: number, type = 'u64'): number | null {
    return this.at(index) === null ? null : this.u64(index, type)
  }

  /** Texts of a list; more than `most` is refused with a validator's message. */
  texts(index: number, most: number): string[] {
    const list = this.at(index)
    if (!Array.isArray(list)) {
      this.mismatch(list, 'a sequence')
      return []
    }
    if (list.length > most) this.fail(`Too many inputs provided; max ${most}`)
    return this.problem === null ? list.map((text) => this.textOf(text)) : []
  }

  /** One of several forms, of which some have content. */
  variant<T extends Variants>(index: number, known: T) {
    const variant = readVariant(this.at(index), known)
    if (typeof variant !== 'string') return variant
    this.malformed(variant)
    return null
  }

  /** The config object at this index; an absent one has no fields. */
  config(index: number, name: string): ParamFields {
    return this.fieldsOf(this.at(index), name) ?? new ParamFields(this, {})
  }

  fieldsOf(value: unknown, name: string): ParamFields | null {
    if (value === null || value === undefined) return null
    if (typeof value === 'object' && !Array.isArray(value))
      // Reason for the cast: an object of JSON is a record.
      return new ParamFields(this, value as Readonly<Record<string, unknown>>)
    this.mismatch(value, `struct ${name}`)
    return null
  }

  /** A whole number that is not negative; null and a problem for anything else. */
  number(value: unknown, type: string): number | bigint | null {
    const problem = wholeNumberProblem(value, type)
    // Reason for the cast: a value without a problem is a number or a bigint.
    if (problem === null) return value as number | bigint
    this.malformed(problem)
    return null
  }

  textOf(value: unknown): string {
    if (typeof value === 'string') return value
    this.mismatch(value, 'a string')
    return ''
  }

  #decoded(
    text: string,
    size: { bytes: number; textMax: number },
    prefix = 'Invalid param: ',
  ): Uint8Array | null {
    if (this.problem !== null) return null
    const bytes = text.length > size.textMax ? zeroKey.subarray(0, 0) : decodeBase58(text)
    if (bytes?.length === size.bytes) return bytes
    this.fail(`${prefix}${bytes === null ? 'Invalid' : 'WrongSize'}`)
    return null
  }
}

/** The fields of a config object. Unknown ones are ignored, null counts as absent. */
export class ParamFields {
  readonly params: Params
  readonly #record: Readonly<Record<string, unknown>>

  constructor(params: Params, record: Readonly<Record<string, unknown>>) {
    this.params = params
    this.#record = record
  }

  raw(name: string): unknown {
    return Object.hasOwn(this.#record, name) ? (this.#record[name] ?? null) : null
  }

  u64(name: string, type = 'u64'): number | null {
    const value = this.exactU64(name, type)
    return value === null ? null : Number(value)
  }

  /** A bigint beyond 2^53. */
  exactU64(name: string, type = 'u64'): number | bigint | null {
    const value = this.raw(name)
    return value === null ? null : this.params.number(value, type)
  }

  /** For a field that a validator does not do without. */
  require(name: string): void {
    if (this.raw(name) === null) this.params.malformed(`missing field \`${name}\``)
  }

  flag(name: string): boolean | null {
    const value = this.raw(name)
    if (value === null || typeof value === 'boolean') return value
    this.params.mismatch(value, 'a boolean')
    return null
  }

  text(name: string): string | null {
    const value = this.raw(name)
    if (value === null || typeof value === 'string') return value
    this.params.mismatch(value, 'a string')
    return null
  }

  choice<T extends string>(name: string, options: readonly T[]): T | null {
    return choiceOf(this.params, this.text(name), options)
  }

  list(name: string): readonly unknown[] | null {
    const value = this.raw(name)
    if (value === null || Array.isArray(value)) return value
    this.params.mismatch(value, 'a sequence')
    return null
  }

  fields(name: string, struct: string): ParamFields | null {
    return this.params.fieldsOf(this.raw(name), struct)
  }
}

function choiceOf<T extends string>(
  params: Params,
  text: string | null,
  options: readonly T[],
): T | null {
  if (text === null) return null
  const found = options.find((option) => option === text)
  if (found !== undefined) return found
  params.malformed(unknownVariant(text, options))
  return null
}

/** A u64 has 20 digits; a much longer number is a float to a validator, too. */
const LONG_INTEGER = /(?<![\w.+-])-?\d{16,40}(?![\d.eE])/
const TEXT_OR_LONG_INTEGER = new RegExp(`"(?:[^"\\\\]|\\\\.)*"|${LONG_INTEGER.source}`, 'g')
const MARKED = /^\0-?\d{16,40}$/

/** With integers beyond 2^53 as bigints: a validator keeps every digit, JSON.parse rounds. */
export function exactParams({ params, paramsText }: Call): unknown {
  if (!LONG_INTEGER.test(paramsText)) return params
  const marked = paramsText.replace(TEXT_OR_LONG_INTEGER, (token) =>
    token.startsWith('"') ? token : `"\\u0000${token}"`,
  )
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && MARKED.test(value) ? exact(BigInt(value.slice(1))) : value,
  )
}

function exact(value: bigint): number | bigint {
  const rounded = Number(value)
  return Number.isSafeInteger(rounded) ? rounded : value
}

// The commitment at which a call reads a chain, and the context of its answer.

/** One method: reads its params, then answers. */
export type Answering = (call: Call) => Answer | Promise<Answer>

type Slots = Pick<SlotReads, 'slot' | 'stateSlot'>

export interface View {
  readonly commitment: Commitment
  readonly slot: number
}

/** `commitment` of a config; finalized when it is absent or unknown, as on a validator. */
function commitmentOf(
  fields: ParamFields,
  fallback: Commitment = Commitment.finalized,
): Commitment {
  return commitmentNamed(fields.raw('commitment')) ?? fallback
}

/** For reads of state: accounts, statuses. Processed sees the open slot. */
export function viewOf(
  fields: ParamFields,
  chain: Slots,
  fallback: Commitment = Commitment.finalized,
): View {
  const commitment = commitmentOf(fields, fallback)
  const slot = chain.stateSlot(commitment)
  checkMinContext(fields, slot)
  return { commitment, slot }
}

/** For reads of slots, heights and blockhashes: those of the newest complete slot. */
export function slotViewOf(fields: ParamFields, chain: Slots): View {
  const commitment = commitmentOf(fields)
  // A caller may have the slot from a read of state.
  checkMinContext(fields, chain.stateSlot(commitment))
  return { commitment, slot: chain.slot(commitment) }
}

/** For methods whose config is a commitment and nothing else: an object must name it. */
export function commitmentViewOf(params: Params, index: number, chain: Slots): View {
  const fields = params.config(index, 'CommitmentConfig')
  if (params.at(index) !== null) fields.require('commitment')
  fields.choice('commitment', commitmentNames)
  return viewOf(fields, chain)
}

/** For methods on the history, which begins at confirmed. */
export function historyViewOf(fields: ParamFields, chain: Slots): View {
  if (commitmentOf(fields) === Commitment.processed)
    fields.params.fail('Method does not support commitment below `confirmed`')
  return slotViewOf(fields, chain)
}

function checkMinContext(fields: ParamFields, slot: number): void {
  const least = fields.u64('minContextSlot')
  if (least !== null && slot < least) fields.params.refuse(rpcFaults.minContextSlot(slot))
}

/** Reads the params of a call and answers; a problem with them ends it first. */
export function answering(
  arity: { readonly least: number; readonly most: number },
  read: (params: Params) => () => Answer | Promise<Answer>,
): Answering {
  return (call) => {
    const params = new Params(call, arity)
    if (params.problem !== null) return failure(params.problem)
    const answer = read(params)
    return params.problem === null ? answer() : failure(params.problem)
  }
}

/** `{context, value}` around a value that is JSON already. */
export function inContext(
  node: { readonly apiVersion: string },
  slot: number,
  value: string,
): Answer {
  return encodedText(
    `{"context":{"apiVersion":"${node.apiVersion}","slot":${slot}},"value":${value}}`,
  )
}
