// Checks the text of a query parameter against its type and writes it in one canonical form.
// Thread: any (pure). Values are written as in ClickHouse: `\N` is NULL, strings have backslash
// escapes, arrays are `['a','b']`.
import type { TypedValue } from '../engine.ts'
import { unescaped } from './quoting.ts'
import type { ArrayType, Scalar, SqlType } from './types.ts'

/** The value, or null when the text is not a value of the type. */
export function parseValue(type: SqlType, text: string): TypedValue | null {
  if (type.kind === 'nullable') {
    if (text === '\\N') return { type: type.name, value: null }
    const inner = parseValue(type.of, text)
    return inner === null ? null : { type: type.name, value: inner.value }
  }
  if (type.kind === 'array') return parseArray(type, text)
  const value = parseScalar(type, isText(type) ? unescaped(text) : text)
  return value === null ? null : { type: type.name, value }
}

function isText({ kind }: SqlType): boolean {
  return kind === 'string' || kind === 'fixed-string'
}

/** Canonical text of one scalar, which both engines read the same way. */
function parseScalar(type: Scalar, text: string | null): string | null {
  if (text === null) return null
  switch (type.kind) {
    case 'integer':
      return parseInteger(type, text)
    case 'float':
      return parseFloatText(text)
    case 'bool':
      return boolTexts.get(text.toLowerCase()) ?? null
    case 'string':
      return text
    case 'fixed-string':
      return Buffer.byteLength(text) <= (type.precision ?? 0) ? text : null
    case 'uuid':
      return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text) ? text.toLowerCase() : null
    case 'date':
      return /^\d{4}-\d\d-\d\d$/.test(text) && isDay(text) ? text : null
    case 'datetime':
      return parseTime(text, 0)
    case 'datetime64':
      return parseTime(text, type.scale ?? 0)
    case 'decimal':
      return parseDecimal(type, text)
    case 'identifier':
      return /^[A-Za-z_]\w{0,127}$/.test(text) ? text : null
  }
}

const boolTexts = new Map([
  ['1', 'true'],
  ['true', 'true'],
  ['0', 'false'],
  ['false', 'false'],
])

function parseInteger({ min = 0n, max = 0n }: Scalar, text: string): string | null {
  if (!/^[+-]?\d{1,40}$/.test(text)) return null
  const value = BigInt(text.replace('+', ''))
  return value >= min && value <= max ? String(value) : null
}

function parseFloatText(text: string): string | null {
  const special = /^([+-]?)(nan|inf|infinity)$/i.exec(text)
  if (special !== null) {
    if (/nan/i.test(text)) return 'nan'
    return special[1] === '-' ? '-inf' : 'inf'
  }
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?$/i.test(text) ? text.replace(/^\+/, '') : null
}

function parseDecimal({ precision = 0, scale = 0 }: Scalar, text: string): string | null {
  const form = /^([+-]?)0*(\d*)(?:\.(\d*))?$/.exec(text)
  if (form === null || !/\d/.test(text)) return null
  const [, sign = '', whole = '', rest = ''] = form
  const fraction = rest.replace(/0+$/, '')
  if (fraction.length > scale || whole.length > precision - scale) return null
  return `${sign === '-' ? '-' : ''}${whole || '0'}${fraction === '' ? '' : `.${fraction}`}`
}

/** `2026-01-02 03:04:05[.678]`, with `T` and `Z` as well, or seconds since 1970; UTC. */
function parseTime(text: string, scale: number): string | null {
  const seconds = /^(\d{1,12})(?:\.(\d{1,9}))?$/.exec(text)
  if (seconds !== null) {
    const [, whole = '', fraction = ''] = seconds
    const date = new Date(Number(whole) * 1000)
    if (Number.isNaN(date.getTime()) || date.getUTCFullYear() > 9999) return null
    return withFraction(date.toISOString().slice(0, 19).replace('T', ' '), fraction, scale)
  }
  const form = /^(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z?$/.exec(text)
  if (form === null) return null
  const [, day = '', hours = '', minutes = '', secs = '', fraction = ''] = form
  if (!isDay(day) || Number(hours) > 23 || Number(minutes) > 59 || Number(secs) > 59) return null
  return withFraction(`${day} ${hours}:${minutes}:${secs}`, fraction, scale)
}

function withFraction(text: string, fraction: string, scale: number): string | null {
  if (scale === 0) return text
  return `${text}.${fraction.slice(0, scale).padEnd(scale, '0')}`
}

function isDay(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text)
}

const ITEMS_MAX = 100_000

/** `[1,2]`, `['a', 'it\'s']`, `[[1],[]]`, `[NULL]`. */
function parseArray(type: ArrayType, text: string): TypedValue | null {
  const items = splitArray(text)
  if (items === null) return null
  const values: TypedValue[] = []
  for (const item of items) {
    const value = parseItem(type.of, item)
    if (value === null) return null
    values.push(value)
  }
  return { type: type.name, value: values }
}

function parseItem(type: SqlType, text: string): TypedValue | null {
  if (type.kind === 'array') return parseArray(type, text)
  if (type.kind === 'nullable') {
    if (/^null$/i.test(text)) return { type: type.name, value: null }
    const inner = parseItem(type.of, text)
    return inner === null ? null : { type: type.name, value: inner.value }
  }
  const isQuoted = /^'(?:[^'\\]|\\.)*'$/s.test(text)
  if (isText(type) && !isQuoted) return null
  const value = parseScalar(type, isQuoted ? unescaped(text.slice(1, -1)) : text)
  return value === null ? null : { type: type.name, value }
}

/** The items of `[…]`, split at the outer commas; null when it is not an array. */
function splitArray(text: string): string[] | null {
  const whole = text.trim()
  if (!whole.startsWith('[') || !whole.endsWith(']') || whole.length < 2) return null
  const items: string[] = []
  let depth = 0
  let begin = 1
  let isInString = false
  for (let at = 1; at < whole.length - 1; at++) {
    const char = whole[at]
    if (isInString) {
      if (char === '\\') at++
      else if (char === "'") isInString = false
    } else if (char === "'") isInString = true
    else if (char === '[') depth++
    else if (char === ']' && --depth < 0) return null
    else if (char === ',' && depth === 0) {
      items.push(whole.slice(begin, at).trim())
      begin = at + 1
      if (items.length > ITEMS_MAX) return null
    }
  }
  const last = whole.slice(begin, -1).trim()
  if (isInString || depth !== 0) return null
  if (last === '') return items.length === 0 ? items : null
  items.push(last)
  return items.includes('') ? null : items
}
