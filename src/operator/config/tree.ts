// Walks a declaration tree: finds keys, collects the given values, builds the typed value.
import type { Field, Fields, Group, Named, Node } from '../../base/fields.ts'
import { nearest } from '../../base/nearest.ts'

/** The value given for a key, and its origin: a file, a variable or a flag. */
export interface Given {
  readonly raw: unknown
  readonly origin: string
  /** Of a file. */
  readonly line?: number
}

/**
 * By full key, `rpc.port`. Later layers overwrite earlier ones. A key that ends in a dot declares
 * that this name or list entry exists: `gold: {}` is a plan, too.
 */
export type GivenKeys = Map<string, Given>

/** Most entries of one list: a configuration is written by hand. */
const LIST_ENTRIES_MAX = 100
const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$/

export interface Leaf {
  readonly key: string
  readonly field: Field<unknown>
}

/** Every field with its key; `<name>` and `<n>` are placeholders for names and list indexes. */
export function* leaves(fields: Fields, prefix = ''): Generator<Leaf> {
  for (const [name, node] of Object.entries(fields)) yield* leavesOf(node, `${prefix}${name}`)
}

function* leavesOf(node: Node, key: string): Generator<Leaf> {
  if (node.node === 'field') yield { key, field: node }
  else if (node.node === 'group') yield* leaves(node.fields, `${key}.`)
  else if (node.node === 'named') yield* leaves(node.of.fields, `${key}.<${node.placeholder}>.`)
  else yield* leaves(node.of.fields, `${key}.<n>.`)
}

export type Found =
  | { readonly kind: 'field'; readonly key: string; readonly field: Field<unknown> }
  | { readonly kind: 'branch'; readonly key: string; readonly within: Fields }
  | { readonly kind: 'unknown' }

/**
 * Finds the key of a variable or a flag. Spelling is compared without case, `-` and `_`,
 * so that TRUSTED_PROXIES, trusted-proxies and trustedProxies are one key.
 */
export function locate(fields: Fields, segments: readonly string[]): Found {
  let within = fields
  let key = ''
  let index = 0
  while (index < segments.length) {
    const wanted = plain(segments[index++]!)
    const entry = Object.entries(within).find(([name]) => plain(name) === wanted)
    if (entry === undefined) return { kind: 'unknown' }
    const [name, node] = entry
    key = key === '' ? name : `${key}.${name}`
    if (node.node === 'field')
      return index === segments.length ? { kind: 'field', key, field: node } : { kind: 'unknown' }
    if (node.node === 'group') {
      within = node.fields
      continue
    }
    within = node.of.fields
    if (index === segments.length) break
    const chosen = segments[index++]!
    const fits = node.node === 'named' ? NAME.test(chosen) : isListIndex(chosen)
    if (!fits) return { kind: 'unknown' }
    key = `${key}.${chosen}`
  }
  return { kind: 'branch', key, within }
}

/** Collects the values of a parsed file. Unknown keys and wrong shapes become problems. */
export function readFileTree(
  fields: Fields,
  raw: unknown,
  sink: {
    readonly origin: string
    readonly given: GivenKeys
    readonly problems: string[]
    /** The line of a key. */
    lineOf(key: string): number
  },
): void {
  const report = (key: string, problem: string) =>
    sink.problems.push(`${sink.origin}: line ${sink.lineOf(key)}: ${problem}`)
  readGroup(fields, raw, '')

  function readGroup(within: Fields, value: unknown, key: string): void {
    for (const [name, child] of entriesOf(value, key)) {
      const childKey = key === '' ? name : `${key}.${name}`
      const node = Object.hasOwn(within, name) ? within[name] : undefined
      if (node === undefined) report(childKey, unknownKey(fields, childKey))
      else readNode(node, child, childKey)
    }
  }

  function readNode(node: Node, value: unknown, key: string): void {
    if (node.node === 'field')
      sink.given.set(key, { raw: value, origin: sink.origin, line: sink.lineOf(key) })
    else if (node.node === 'group') readGroup(node.fields, value, key)
    else if (node.node === 'named') {
      for (const [name, child] of entriesOf(value, key))
        if (NAME.test(name)) readChosen(node.of.fields, child, `${key}.${name}`)
        else report(key, `${key}: a name is 1 to 32 letters, digits, - and _`)
    } else if (!Array.isArray(value)) {
      report(key, `${key} must be a list`)
    } else if (value.length > LIST_ENTRIES_MAX) {
      report(key, `${key} must have at most ${LIST_ENTRIES_MAX} entries`)
    } else {
      value.forEach((item, index) => {
        readChosen(node.of.fields, item, `${key}.${index}`)
      })
    }
  }

  function readChosen(within: Fields, value: unknown, key: string): void {
    sink.given.set(`${key}.`, { raw: null, origin: sink.origin })
    readGroup(within, value, key)
  }

  function entriesOf(value: unknown, key: string): [string, unknown][] {
    if (value === null || value === undefined) return []
    if (typeof value === 'object' && !Array.isArray(value)) return Object.entries(value)
    report(key, `${key || 'the file'} must be keys with values`)
    return []
  }
}

/** The problem text of an undeclared key; names the nearest declared one. */
export function unknownKey(fields: Fields, key: string): string {
  // Sections are candidates, too: `plan` is near to `plans`, of which every key is far.
  const known = new Set<string>()
  for (const leaf of leaves(fields)) {
    const words = asWritten(leaf.key, key).split('.')
    for (let count = 1; count <= words.length; count++) known.add(words.slice(0, count).join('.'))
  }
  const near = nearest(key, known)
  // YAML parses `{rpc:https://…}` and mappings as keys, and these may contain a secret.
  const shownKey = key.replace(/(:\/\/|[{[]).*/s, '$1…')
  if (near === key) return `unknown key ${shownKey}: in a file each part is a key inside the other`
  return `unknown key ${shownKey}${near === null ? '' : `; the nearest known one is ${near}`}`
}

/** Parses the given values and fills in defaults. Problems name the key and its origin. */
export function buildValues(fields: Fields, given: GivenKeys, problems: string[]): unknown {
  return buildGroup(fields, '', undefined)

  function buildGroup(within: Fields, prefix: string, base: unknown): unknown {
    const values: Record<string, unknown> = {}
    for (const [name, node] of Object.entries(within))
      values[name] = build(node, `${prefix}${name}`, own(base, name))
    return Object.freeze(values)
  }

  function build(node: Node, key: string, base: unknown): unknown {
    if (node.node === 'group') return buildGroup(node.fields, `${key}.`, base)
    if (node.node === 'named') return buildNamed(node, key)
    if (node.node === 'many') return buildMany(node.of, key)
    const found = given.get(key)
    if (found === undefined) return base ?? node.initial
    const parsed = node.parse(found.raw)
    if (parsed.ok) return Object.freeze(parsed.value)
    const got = node.secret ? '' : `, got ${shown(found.raw)}`
    const line = found.line === undefined ? '' : `line ${found.line}: `
    problems.push(`${found.origin}: ${line}${key} ${parsed.problem}${got}`)
    return node.initial
  }

  function buildNamed(node: Named, key: string): unknown {
    const names = new Set([...Object.keys(node.initial), ...chosenBelow(given, key)])
    const values: Record<string, unknown> = {}
    for (const name of names)
      values[name] = buildGroup(node.of.fields, `${key}.${name}.`, own(node.initial, name))
    return Object.freeze(values)
  }

  function buildMany(of: Group, key: string): unknown {
    const indexes = [...chosenBelow(given, key)].map(Number).sort((a, b) => a - b)
    return Object.freeze(indexes.map((n) => buildGroup(of.fields, `${key}.${n}.`, undefined)))
  }
}

function chosenBelow(given: GivenKeys, key: string): Set<string> {
  const prefix = `${key}.`
  const chosen = new Set<string>()
  for (const path of given.keys())
    if (path.startsWith(prefix)) chosen.add(path.slice(prefix.length).split('.')[0]!)
  return chosen
}

/** A declared key with each placeholder replaced by the word written there. */
function asWritten(declared: string, written: string): string {
  const words = written.split('.')
  return declared
    .split('.')
    .map((word, index) => (word.startsWith('<') ? (words[index] ?? word) : word))
    .join('.')
}

function plain(word: string): string {
  return word.replaceAll(/[-_]/g, '').toLowerCase()
}

function isListIndex(word: string): boolean {
  return /^\d{1,2}$/.test(word)
}

function own(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}

function shown(raw: unknown): string {
  const written = JSON.stringify(raw) ?? String(raw)
  return written.length > 60 ? `${written.slice(0, 57)}...` : written
}
