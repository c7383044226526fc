// Recognises calls that were parsed before, whatever their id: clients ask the same again and
// again. Thread: any; one object per endpoint.
// A request is cut at its id: `{"jsonrpc":"2.0","id":` 7 `,"method":"getSlot","params":[]}`. The
// strict parser has read the same text before with another id in that place, and found it there; a
// plain text or integer in the same place is then an id, too, and everything else is as it was.
import type { Call } from './parse.ts'

/** What the strict parser found, for any id. */
interface Known {
  readonly method: string
  readonly params: unknown
  readonly paramsText: string
}

/** Texts that are known; when there are more, all of them are forgotten. */
const knownMax = 2_048
const textMax = 512
const idMax = 64
/** Texts that were seen once, each at the place that its length and some characters name. */
const seenMax = 1_024

/** How common clients begin a request with its id. */
const openings = ['{"jsonrpc":"2.0","id":', '{"id":'] as const
/** How others end it. */
const idMember = ',"id":'

const quote = 0x22
const backslash = 0x5c
const closingBrace = 0x7d
const zero = 0x30

export class KnownCalls {
  /** By what precedes and follows the id. */
  readonly #byOpening = openings.map(() => new Map<string, Known>())
  readonly #byBeginning = new Map<string, Known>()
  readonly #seen = new Array<string>(seenMax).fill('')
  readonly #parse: (text: string) => Call | null

  /** `parse` is the strict parser; null for a text that is not one call. */
  constructor(parse: (text: string) => Call | null) {
    this.#parse = parse
  }

  /** Null for a text that is not known yet: the strict parser has to read it. */
  find(text: string): Call | null {
    if (text.length > textMax + idMax) return null
    for (let shape = 0; shape < openings.length; shape++) {
      const opening = openings[shape]!
      if (!text.startsWith(opening)) continue
      const start = opening.length
      const end = idEnd(text, start)
      if (end === -1) return null
      return this.#known(this.#byOpening[shape]!, text.slice(end), text, start, end)
    }
    const start = text.lastIndexOf(idMember) + idMember.length
    const end = start < idMember.length ? -1 : idEnd(text, start)
    if (end !== text.length - 1 || text.charCodeAt(end) !== closingBrace) return null
    return this.#known(this.#byBeginning, text.slice(0, start), text, start, end)
  }

  #known(
    map: Map<string, Known>,
    rest: string,
    text: string,
    start: number,
    end: number,
  ): Call | null {
    const known = map.get(rest) ?? this.#learn(map, rest, text, start, end)
    if (known === null) return null
    const { method, params, paramsText } = known
    return { method, params, paramsText, id: text.slice(start, end) }
  }

  /** From the second time on: a text that never comes again costs no more than a comparison. */
  #learn(
    map: Map<string, Known>,
    rest: string,
    text: string,
    start: number,
    end: number,
  ): Known | null {
    const { length } = rest
    const sum = rest.charCodeAt(length >> 1) + rest.charCodeAt(length - 4) * 31
    const place = (length * 7 + sum) & (seenMax - 1)
    if (this.#seen[place] !== rest) {
      this.#seen[place] = rest
      return null
    }
    // An id that no caller knows: a second id member of the text cannot have it.
    const id = `"${Math.random()} ${Math.random()}"`
    const call = this.#parse(`${text.slice(0, start)}${id}${text.slice(end)}`)
    if (call === null || call.id !== id) return null
    const { method, params, paramsText } = call
    if (map.size >= knownMax) map.clear()
    map.set(rest, { method, params, paramsText })
    return { method, params, paramsText }
  }
}

/** After a plain text or integer; -1 when the id is anything else. */
function idEnd(text: string, start: number): number {
  const limit = Math.min(text.length, start + idMax)
  const first = text.charCodeAt(start)
  if (first === quote) {
    for (let at = start + 1; at < limit; at++) {
      const code = text.charCodeAt(at)
      if (code === quote) return at + 1
      if (code < 0x20 || code > 0x7e || code === backslash) return -1
    }
    return -1
  }
  let at = start
  while (at < limit && isDigit(text.charCodeAt(at))) at++
  return at === start || (first === zero && at > start + 1) ? -1 : at
}

function isDigit(code: number): boolean {
  return code >= zero && code <= zero + 9
}
