// Finds where JSON values end, without validating them.
// Works on any text: a value that never ends, or nests too deep, returns -1.

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const CLOSING_BRACE = 0x7d

export function skipSpace(text: string, start: number): number {
  let at = start
  for (;;) {
    const code = text.charCodeAt(at)
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at
    at++
  }
}

/** The offset after the string that opens at `start`. */
export function skipString(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1)
  while (quote !== -1) {
    // An odd number of backslashes before a quote makes it a character of the text.
    let before = quote - 1
    while (text.charCodeAt(before) === BACKSLASH) before--
    if ((quote - before) % 2 === 1) return quote + 1
    quote = text.indexOf('"', quote + 1)
  }
  return -1
}

/** The offset after the value that begins at `start`, which nests at most `depthMax` levels. */
export function skipValue(text: string, start: number, depthMax: number): number {
  const code = text.charCodeAt(start)
  if (code === QUOTE) return skipString(text, start)
  if (isOpeningBrace(code) || isOpeningBracket(code)) return skipNested(text, start, depthMax)
  let at = start
  while (isScalar(text.charCodeAt(at))) at++
  return at === start ? -1 : at
}

export function isOpeningBrace(code: number): boolean {
  return code === 0x7b
}

function isOpeningBracket(code: number): boolean {
  return code === 0x5b
}

function skipNested(text: string, start: number, depthMax: number): number {
  let depth = 0
  let at = start
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = skipString(text, at)
      if (at === -1) return -1
      continue
    }
    at++
    if (isOpeningBrace(code) || isOpeningBracket(code)) {
      if (++depth > depthMax) return -1
    } else if (code === 0x5d || code === CLOSING_BRACE) {
      if (--depth === 0) return at
    }
  }
  return -1
}

/**
 * Walks the object that opens at `start`: passes each member with the offsets of its value (end -1
 * when the text ends inside it or nests deeper) to `take` until that returns false. Returns the
 * offset after the closing brace; -1 when not reached.
 */
export function walkMembers(
  text: string,
  start: number,
  depthMax: number,
  take: (key: string, start: number, end: number) => boolean,
): number {
  if (!isOpeningBrace(text.charCodeAt(start))) return -1
  let at = skipSpace(text, start + 1)
  if (text.charCodeAt(at) === CLOSING_BRACE) return at + 1
  for (;;) {
    const keyEnd = text.charCodeAt(at) === QUOTE ? skipString(text, at) : -1
    if (keyEnd === -1) return -1
    const colon = skipSpace(text, keyEnd)
    if (text.charCodeAt(colon) !== COLON) return -1
    const value = skipSpace(text, colon + 1)
    const end = skipValue(text, value, depthMax - 1)
    if (!take(text.slice(at + 1, keyEnd - 1), value, end) || end === -1) return -1
    at = skipSpace(text, end)
    const code = text.charCodeAt(at)
    if (code === CLOSING_BRACE) return at + 1
    if (code !== COMMA) return -1
    at = skipSpace(text, at + 1)
  }
}

/** Digits, letters, sign and point: the characters of numbers, true, false and null. */
function isScalar(code: number): boolean {
  if (code >= 0x30 && code <= 0x39) return true
  if (code >= 0x61 && code <= 0x7a) return true
  return code === 0x2b || code === 0x2d || code === 0x2e || code === 0x45
}
