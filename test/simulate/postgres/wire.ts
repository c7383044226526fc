// The server's side of the PostgreSQL protocol, version 3: what the pg library sends is read, and
// the answers are written. Simple queries and unnamed prepared statements with parameters as text.

/** A statement with its parameters, as text or null. */
export interface Statement {
  readonly text: string
  readonly values: readonly (string | null)[]
}

export type Received =
  | { readonly kind: 'startup'; readonly settings: ReadonlyMap<string, string> }
  | { readonly kind: 'statement'; readonly statement: Statement; readonly isPrepared: boolean }
  | { readonly kind: 'terminate' }

export const oids = {
  bool: 16,
  bytea: 17,
  int8: 20,
  int4: 23,
  text: 25,
  json: 114,
  float8: 701,
} as const

export type ColumnType = keyof typeof oids

/** The rows of an answer; values are in the order of the columns. */
export interface Rows {
  readonly columns: readonly (readonly [name: string, type: ColumnType])[]
  readonly rows: readonly (readonly unknown[])[]
}

export const nothing: Rows = { columns: [], rows: [] }

export class SqlError extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** Cuts what a client sends into messages. */
export class Frontend {
  #bytes: Buffer = Buffer.alloc(0)
  #isStarted = false
  #text = ''
  #values: (string | null)[] = []

  read(chunk: Buffer): Received[] {
    const received: Received[] = []
    this.#bytes = Buffer.concat([this.#bytes, chunk])
    for (;;) {
      const head = this.#isStarted ? 1 : 0
      if (this.#bytes.length < head + 4) return received
      const end = head + this.#bytes.readInt32BE(head)
      if (this.#bytes.length < end) return received
      const type = head === 0 ? '' : String.fromCharCode(this.#bytes[0]!)
      const body = this.#bytes.subarray(head + 4, end)
      this.#bytes = this.#bytes.subarray(end)
      const message = this.#message(type, body)
      if (message !== null) received.push(message)
    }
  }

  #message(type: string, body: Buffer): Received | null {
    if (type === '') {
      this.#isStarted = true
      const words = body.subarray(4).toString().split('\0')
      const settings = new Map<string, string>()
      for (let at = 0; words[at]; at += 2) settings.set(words[at]!, words[at + 1]!)
      return { kind: 'startup', settings }
    }
    if (type === 'X') return { kind: 'terminate' }
    if (type === 'Q') {
      const statement = { text: textAt(body, 0), values: [] }
      return { kind: 'statement', statement, isPrepared: false }
    }
    if (type === 'P') this.#text = textAt(body, textAt(body, 0).length + 1)
    else if (type === 'B') this.#values = valuesOf(body)
    else if (type === 'S')
      return {
        kind: 'statement',
        statement: { text: this.#text, values: this.#values },
        isPrepared: true,
      }
    else if (type !== 'D' && type !== 'E') throw new Error(`a message of type ${type}`)
    return null
  }
}

function textAt(body: Buffer, at: number): string {
  return body.toString('utf8', at, body.indexOf(0, at))
}

function valuesOf(body: Buffer): (string | null)[] {
  // Names of portal and statement, both empty, and the formats.
  let at = 2
  const formats = body.readInt16BE(at)
  for (let index = 0; index < formats; index++)
    if (body.readInt16BE(at + 2 + 2 * index) !== 0) throw new Error('a parameter in binary')
  at += 2 + 2 * formats
  const count = body.readInt16BE(at)
  at += 2
  const values: (string | null)[] = []
  for (let index = 0; index < count; index++) {
    const length = body.readInt32BE(at)
    at += 4
    values.push(length < 0 ? null : body.toString('utf8', at, at + length))
    at += Math.max(0, length)
  }
  return values
}

/** What follows a startup message that is accepted. */
export function greeting(): Buffer {
  return Buffer.concat([message('R', int32(0)), message('K', int32(1), int32(2)), ready('I')])
}

/** `status` is that of the session after the statement: idle, in a transaction, or failed. */
export function answer(rows: Rows, isPrepared: boolean, status: 'I' | 'T' | 'E'): Buffer {
  const before = isPrepared ? [message('1'), message('2')] : []
  const { columns } = rows
  const described =
    columns.length > 0
      ? [message('T', int16(columns.length), ...columns.map(describe))]
      : isPrepared
        ? [message('n')]
        : []
  const data = rows.rows.map((row) => message('D', int16(row.length), ...row.map(valueBytes)))
  return Buffer.concat([
    ...before,
    ...described,
    ...data,
    message('C', cString(`SELECT ${rows.rows.length}`)),
    ready(status),
  ])
}

export function failure({ code, message: text }: SqlError, status: 'I' | 'E'): Buffer {
  return Buffer.concat([failed(code, text), ready(status)])
}

/** Of a session that the server ends. */
export function failed(code: string, text: string): Buffer {
  const fields = ['SERROR', 'VERROR', `C${code}`, `M${text}`].map(cString)
  return message('E', ...fields, Buffer.alloc(1))
}

export function notification(channel: string, payload: string): Buffer {
  return message('A', int32(1), cString(channel), cString(payload))
}

function describe([name, type]: Rows['columns'][number]): Buffer {
  const fixed = [int32(0), int16(0), int32(oids[type]), int16(-1), int32(-1), int16(0)]
  return Buffer.concat([cString(name), ...fixed])
}

function valueBytes(value: unknown): Buffer {
  if (value === null || value === undefined) return int32(-1)
  const text = Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : textOf(value)
  const bytes = Buffer.from(text)
  return Buffer.concat([int32(bytes.length), bytes])
}

function textOf(value: unknown): string {
  if (typeof value === 'boolean') return value ? 't' : 'f'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function ready(status: 'I' | 'T' | 'E'): Buffer {
  return message('Z', Buffer.from(status))
}

function message(type: string, ...parts: readonly Buffer[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 4)
  return Buffer.concat([Buffer.from(type), int32(length), ...parts])
}

function cString(text: string): Buffer {
  return Buffer.from(`${text}\0`)
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

/** The elements of an array in PostgreSQL's text form; no array of arrays. */
export function arrayOf(literal: string | null): string[] {
  const text = literal ?? '{}'
  const elements: string[] = []
  let at = 1
  while (at < text.length - 1) {
    let element = ''
    if (text[at] === '"') {
      for (at++; text[at] !== '"'; at++) {
        if (text[at] === '\\') at++
        element += text[at]
      }
      at++
    } else
      for (; text[at] !== ',' && text[at] !== '}'; at++) {
        if (text[at] === '\\') at++
        element += text[at]
      }
    elements.push(element)
    at++
  }
  return elements
}
