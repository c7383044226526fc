// Reads the params of a call with integers beyond 2^53 as bigints.
// JSON.parse rounds them, and a validator's errors and amounts keep every digit.
import type { Call } from './parse.ts'

/** A u64 has 20 digits; a much longer number is a float to a validator, too. */
const LONG_INTEGER = /(?<![\w.+-])-?\d{16,40}(?![\d.eE])/
const TEXT_OR_LONG_INTEGER = new RegExp(`"(?:[^"\\\\]|\\\\.)*"|${LONG_INTEGER.source}`, 'g')
const MARKED = /^\0-?\d{16,40}$/

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
