// Writes JSON-RPC 2.0 answers. Thread: any (pure).
// Ids come as the text they were written with and go back untouched. Field order is that of
// Solana's own server: jsonrpc, result or error, id.

export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
  /** The whole object as JSON, where it is the same each time. */
  readonly text?: string
}

/** What a method gives back: a value to encode, JSON that is ready, or an error. */
export type Answer =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'error'; readonly error: RpcError }

/** A message on the wire; bytes only where a result came as bytes. */
export type Message = string | Uint8Array

export const rpcErrors = {
  parse: { code: -32700, message: 'Parse error' },
  invalidRequest: { code: -32600, message: 'Invalid request' },
  // Errors: JSON-RPC method not supported.
  unknownMethod: { code: -32601, message: 'Method not found' },
  invalidParams: { code: -32602, message: 'Invalid params' },
  internal: { code: -32603, message: 'Internal error' },
} as const satisfies Record<string, RpcError>

export function value(result: unknown): Answer {
  return { kind: 'value', value: result }
}

/** JSON text that is ready to go out. */
export function encodedText(text: string): Answer {
  return { kind: 'text', text }
}

/** JSON bytes that are ready to go out; kept until they are sent. */
export function encodedBytes(bytes: Uint8Array): Answer {
  return { kind: 'bytes', bytes }
}

export function failure(error: RpcError): Answer {
  return { kind: 'error', error }
}

export function answerMessage(id: string, answer: Answer): Message {
  switch (answer.kind) {
    case 'text':
      return `{"jsonrpc":"2.0","result":${answer.text},"id":${id}}`
    case 'value':
      return `{"jsonrpc":"2.0","result":${JSON.stringify(answer.value ?? null)},"id":${id}}`
    case 'error':
      return errorMessage(id, answer.error)
    case 'bytes':
      return Buffer.concat([RESULT_OPENS, answer.bytes, Buffer.from(`,"id":${id}}`)])
  }
}

export function errorMessage(id: string, error: RpcError): string {
  return `{"jsonrpc":"2.0","error":${errorTextOf(error)},"id":${id}}`
}

/** The error object alone, for answers that are no JSON-RPC. */
export function errorTextOf(error: RpcError): string {
  if (error.text !== undefined) return error.text
  const data = error.data === undefined ? '' : `,"data":${JSON.stringify(error.data)}`
  return `{"code":${error.code},"message":${JSON.stringify(error.message)}${data}}`
}

/** The answers of a batch as one array; '' when there is none. */
export function batchMessage(answers: readonly Message[]): Message {
  if (answers.length === 0) return ''
  if (answers.every((answer) => typeof answer === 'string')) return `[${answers.join(',')}]`
  const parts = answers.flatMap((answer, index) => [
    Buffer.from(index === 0 ? '[' : ','),
    typeof answer === 'string' ? Buffer.from(answer) : answer,
  ])
  return Buffer.concat([...parts, Buffer.from(']')])
}

/** A notification of a subscription. */
export function notificationText(method: string, subscription: number, result: string): string {
  const params = `{"result":${result},"subscription":${subscription}}`
  return `{"jsonrpc":"2.0","method":"${method}","params":${params}}`
}

const RESULT_OPENS = Buffer.from('{"jsonrpc":"2.0","result":')
