// Functions that functions.sql defines: the printer writes their SQL out at each call, so that they
// cost a query process nothing at its start. Thread: any; the file is read once.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type CallOf, type Entries, type Entry, notAnswered } from './entry.ts'
import { itemType, opened, splitTypes, unknown, withoutNull } from './typing.ts'

/** One way to call a function: its text, cut at the parameters and at names that lambdas bind. */
interface Overload {
  readonly count: number
  readonly pieces: readonly Piece[]
}
type Piece = string | { readonly arg: number } | { readonly bound: string }

const text = readFileSync(fileURLToPath(new URL('functions.sql', import.meta.url)), 'utf8')
const statement = /^CREATE MACRO (\w+)(\([\s\S]*?);(?: -- (.+))?$/gm
const found = [...text.matchAll(statement)]

/** Functions of ClickHouse that are refused by name. */
export const refusals: Entries = Object.fromEntries(
  [...text.matchAll(/^-- refused: (.+)$/gm)].flatMap(([, names = '']) =>
    names.split(' ').map((name) => [name.toLowerCase(), { sql: () => refuse(name) }]),
  ),
)

function refuse(name: string): never {
  throw notAnswered(`function ${name} of ClickHouse`)
}

/** Names in ClickHouse's case by the name in lower case. */
export const writtenNames: ReadonlyMap<string, string> = new Map(
  found.map(([, name = '']) => [name.toLowerCase(), name]),
)

/** Helpers of other definitions, which DuckDB has as macros. */
export const macros: readonly { readonly name: string; readonly sql: string }[] = found
  .filter(([, , , type]) => type === undefined)
  .map(([, name, body]) => ({ name: name!, sql: `CREATE MACRO ${name}${body}` }))

/** A definition, for arguments whose first has a type that begins so. */
interface Definition {
  readonly of: string
  readonly type: string
  readonly overloads: readonly Overload[]
}

const byName = new Map<string, Definition[]>()
for (const [, name = '', body = '', result] of found) {
  if (result === undefined) continue
  const [type = '', of = ''] = result.split(' of ')
  const key = name.toLowerCase()
  byName.set(key, [...(byName.get(key) ?? []), { of, type, overloads: overloadsOf(body) }])
}

export const definitions: Entries = Object.fromEntries(
  [...byName].map(([name, list]) => [name, entryOf(list)]),
)

function entryOf(list: readonly Definition[]): Entry {
  const chosen = ({ args: [x] }: CallOf) =>
    list.find(({ of }) => withoutNull(x?.type ?? unknown).startsWith(of)) ?? list.at(-1)!
  const { type } = list[0]!
  return {
    type: type === 'flag' ? type : (call) => typeFrom(chosen(call).type, call),
    sql: (call) => {
      const overload = chosen(call).overloads.find(({ count }) => count === call.args.length)
      return overload === undefined ? null : expanded(overload, call)
    },
  }
}

/** `$1` is the type of an argument; item(), key() and value() are what it contains. */
function typeFrom(rule: string, { args }: CallOf): string {
  return rule.replaceAll(/(?:(item|key)\()?\$(\d)\)?/g, (whole, part: string | undefined, at) => {
    const type = args[Number(at) - 1]?.type ?? unknown
    if (part === 'item') return itemType(type)
    if (part === 'key') return splitTypes(opened(type)?.[1] ?? '')[0] ?? unknown
    return whole.endsWith(')') ? `${type})` : type
  })
}

/** Lambdas inside each other need names of their own: one number more than any argument has. */
function expanded({ pieces }: Overload, { args }: CallOf): string {
  const used = args.flatMap(({ sql }) => [...sql.matchAll(/\b[a-z]_(\d{1,5})\b/g)])
  const number = Math.max(0, ...used.map((one) => Number(one[1]))) + 1
  const text = pieces.map((piece) => {
    if (typeof piece === 'string') return piece
    return 'arg' in piece ? args[piece.arg]!.sql : `${piece.bound}${number}`
  })
  return `(${text.join('')})`
}

/** `(x) AS a, (x, y) AS b`. */
function overloadsOf(body: string): Overload[] {
  return body.split(/,\s*(?=\([\w, ]*\) AS\s)/).map((text) => {
    const [, names = '', sql = ''] = /^\(([\w, ]*)\) AS\s+([\s\S]*)$/.exec(text) ?? []
    const params = names === '' ? [] : names.split(', ')
    return { count: params.length, pieces: piecesOf(sql.replaceAll(/\s+/g, ' '), params) }
  })
}

function piecesOf(sql: string, params: readonly string[]): readonly Piece[] {
  const pieces: Piece[] = []
  let end = 0
  for (const { 0: word, index } of sql.matchAll(/'(?:[^']|'')*'|[A-Za-z_]\w*/g)) {
    const arg = params.indexOf(word)
    if (arg === -1 && !/^[a-z]_$/.test(word)) continue
    pieces.push(sql.slice(end, index), arg === -1 ? { bound: word } : { arg })
    end = index + word.length
  }
  return [...pieces, sql.slice(end)]
}
