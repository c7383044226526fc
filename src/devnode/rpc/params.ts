// Reads the params of a Solana call, with the errors that a validator gives. Thread: any (pure).
// A method reads everything first and looks at `problem` once: after the first problem every read
// yields something harmless.
import type { RpcError } from '../../jsonrpc/build.ts'
import type { Call } from '../../jsonrpc/parse.ts'
import { decodeBase58 } from '../../solana/base58.ts'
import { keyOfText } from '../../solana/key-text.ts'
import { invalidParams } from './errors.ts'

const keyTextMax = 44
const signatureTextMax = 88
const none: readonly unknown[] = []
const zeroKey = new Uint8Array(32)

export class Params {
  readonly #list: readonly unknown[]
  problem: RpcError | null = null

  constructor(call: Call, { least, most }: { readonly least: number; readonly most: number }) {
    const { params } = call
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

  mismatch(found: unknown, expected: string): void {
    this.fail(`Invalid params: invalid type: ${kindOf(found)}, expected ${expected}.`)
  }

  at(index: number): unknown {
    return this.#list[index] ?? null
  }

  text(index: number): string {
    return this.#text(this.at(index))
  }

  key(index: number): Uint8Array {
    return this.keyOf(this.text(index))
  }

  keyOf(text: string): Uint8Array {
    const known = keyOfText(text)
    return known ?? this.#decoded(text, { bytes: 32, textMax: keyTextMax }) ?? zeroKey
  }

  signature(index: number): Uint8Array {
    return this.signatureOf(this.text(index))
  }

  signatureOf(text: string): Uint8Array {
    return this.#decoded(text, { bytes: 64, textMax: signatureTextMax }) ?? new Uint8Array(64)
  }

  u64(index: number): number {
    return this.number(this.at(index), 'u64') ?? 0
  }

  optionalU64(index: number): number | null {
    return this.at(index) === null ? null : this.u64(index)
  }

  /** Texts of a list; more than `most` is refused with a validator's message. */
  texts(index: number, most: number): string[] {
    const list = this.at(index)
    if (!Array.isArray(list)) {
      this.mismatch(list, 'a sequence')
      return []
    }
    if (list.length > most) this.fail(`Too many inputs provided; max ${most}`)
    return this.problem === null ? list.map((text) => this.#text(text)) : []
  }

  /** The config object at this index; an absent one has no fields. */
  config(index: number, name: string): Fields {
    return this.fieldsOf(this.at(index), name) ?? new Fields(this, {})
  }

  fieldsOf(value: unknown, name: string): Fields | null {
    if (value === null || value === undefined) return null
    if (typeof value === 'object' && !Array.isArray(value))
      // Reason for the cast: an object of JSON is a record.
      return new Fields(this, value as Readonly<Record<string, unknown>>)
    this.mismatch(value, `struct ${name}`)
    return null
  }

  /** A whole number that is not negative; null and a problem for anything else. */
  number(value: unknown, type: string): number | null {
    if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value
    if (typeof value === 'number' && Number.isInteger(value))
      this.fail(`Invalid params: invalid value: integer \`${value}\`, expected ${type}.`)
    else this.mismatch(value, type)
    return null
  }

  #text(value: unknown): string {
    if (typeof value === 'string') return value
    this.mismatch(value, 'a string')
    return ''
  }

  #decoded(text: string, size: { bytes: number; textMax: number }): Uint8Array | null {
    if (this.problem !== null) return null
    const bytes = text.length > size.textMax ? zeroKey.subarray(0, 0) : decodeBase58(text)
    if (bytes?.length === size.bytes) return bytes
    this.fail(`Invalid param: ${bytes === null ? 'Invalid' : 'WrongSize'}`)
    return null
  }
}

/** The fields of a config object. Unknown ones are ignored, null counts as absent. */
export class Fields {
  readonly params: Params
  readonly #record: Readonly<Record<string, unknown>>

  constructor(params: Params, record: Readonly<Record<string, unknown>>) {
    this.params = params
    this.#record = record
  }

  raw(name: string): unknown {
    return Object.hasOwn(this.#record, name) ? (this.#record[name] ?? null) : null
  }

  u64(name: string): number | null {
    const value = this.raw(name)
    return value === null ? null : this.params.number(value, 'u64')
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

  fields(name: string, struct: string): Fields | null {
    return this.params.fieldsOf(this.raw(name), struct)
  }
}

export function choiceOf<T extends string>(
  params: Params,
  text: string | null,
  options: readonly T[],
): T | null {
  if (text === null) return null
  const found = options.find((option) => option === text)
  if (found !== undefined) return found
  const names = options.map((option) => `\`${option}\``).join(', ')
  params.fail(`Invalid params: unknown variant \`${text}\`, expected one of ${names}.`)
  return null
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (Array.isArray(value)) return 'sequence'
  switch (typeof value) {
    case 'string':
      return `string ${JSON.stringify(value)}`
    case 'number':
      return Number.isInteger(value) ? `integer \`${value}\`` : `floating point \`${value}\``
    case 'boolean':
      return `boolean \`${value}\``
    default:
      return 'map'
  }
}
