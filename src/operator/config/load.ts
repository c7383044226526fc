// Loads the configuration: defaults, then file, then environment, then flags; later wins.
// The only file that reads process.env.
// All problems are collected before the load is refused, so that one run reports them all.
import { readFile, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { messageOf } from '../../base/errors.ts'
import type { Field, Fields, Group, Named, Node } from '../../base/fields.ts'
import { nearest } from '../../base/nearest.ts'
import { type Config, checkConfig, configFields } from './config.ts'

export interface ConfigFlag {
  /** Without the leading dashes: `rpc.port`. */
  readonly key: string
  readonly value: string
}

export interface Loaded {
  readonly config: Config
  /** Keys that were set, and where; every other key has its default. */
  readonly origins: ReadonlyMap<string, string>
}

export type LoadResult =
  | ({ readonly ok: true } & Loaded)
  | { readonly ok: false; readonly problems: readonly string[] }

type Environment = Readonly<Record<string, string | undefined>>

export interface LoadRequest {
  /** Path of a YAML file; SLUICE_CONFIG when absent, and no file when that is absent too. */
  readonly file?: string
  readonly flags?: readonly ConfigFlag[]
  readonly env?: Environment
}

// biome-ignore lint/style/noProcessEnv: only this file may read it.
const environment: Environment = process.env
const PREFIX = 'SLUICE_'
const FILE_BYTES_MAX = 1 << 20
/** Variables with our prefix that are not keys: paths of files, and those of tests and benches. */
const NOT_KEYS = /^SLUICE_(CONFIG$|CREDENTIALS$|TEST_|LONG_|BENCH_|CLUSTER_FULL$)/
/** Kubernetes sets these in every pod for a service named `sluice`; they are not keys. */
const KUBERNETES = /^SLUICE_(SERVICE_(HOST|PORT)|PORT($|_\d))/

/** The file that a request reads; null without a file. */
export function configFileOf({ file, env = environment }: LoadRequest): string | null {
  return (file ?? env.SLUICE_CONFIG) || null
}

/** The file of SLUICE_CREDENTIALS; null without it. */
export function credentialsFile(env: Environment = environment): string | null {
  return env.SLUICE_CREDENTIALS || null
}

export async function loadConfig(request: LoadRequest = {}): Promise<LoadResult> {
  const env = request.env ?? environment
  const problems: string[] = []
  const given: GivenKeys = new Map()
  const file = configFileOf(request)
  if (file !== null) await readConfigFile(file, given, problems)
  readEnvironment(env, given, problems)
  for (const { key, value } of request.flags ?? [])
    place(
      { segments: key.split('.'), written: key, raw: value, origin: `--${key}` },
      given,
      problems,
    )
  // Reason for the cast: the tree of declarations is what both the value and the type are made of.
  const config = buildValues(configFields, given, problems) as Config
  // A refused value counts as its default here, so that one run reports these problems too.
  const isSet = (key: string) => given.has(key)
  problems.push(...checkConfig(config, isSet))
  if (problems.length > 0) return { ok: false, problems }
  const keys = [...given].filter(([key]) => !key.endsWith('.'))
  const origins = new Map(keys.map(([key, { origin }]) => [key, origin]))
  return { ok: true, config, origins }
}

/** The declared field of a flag, whatever its spelling. */
export function fieldOfFlag(key: string): Field<unknown> | null {
  const found = locate(configFields, key.split('.'))
  return found.kind === 'field' ? found.field : null
}

/** The user who runs the command, also through sudo; recorded in the audit table. */
export function userName(): string {
  const isRoot = process.getuid?.() === 0
  if (isRoot && environment.SUDO_USER) return environment.SUDO_USER
  try {
    return userInfo().username
  } catch {
    // A container may run with a uid that no user has.
    return `uid ${process.getuid?.()}`
  }
}

async function readConfigFile(path: string, given: GivenKeys, problems: string[]): Promise<void> {
  try {
    const { size } = await stat(path)
    if (size > FILE_BYTES_MAX)
      return void problems.push(`${path}: larger than ${FILE_BYTES_MAX} bytes`)
    const text = await readFile(path, 'utf8')
    // Imported here, because most commands run without a file and should start at once.
    const { LineCounter, parseDocument } = await import('yaml')
    const lineCounter = new LineCounter()
    // Pretty errors and warnings quote the file, and the quoted line may contain a secret.
    const document = parseDocument(text, { lineCounter, prettyErrors: false, logLevel: 'error' })
    for (const { message, pos } of [...document.errors, ...document.warnings])
      problems.push(`${path}: line ${lineCounter.linePos(pos[0]).line}: ${message}`)
    if (document.errors.length > 0) return
    const lineOf = (key: string) => lineCounter.linePos(offsetOf(document.contents, key)).line
    readFileTree(configFields, document.toJS(), { origin: path, given, problems, lineOf })
  } catch (error) {
    problems.push(`${path}: ${messageOf(error).trim()}`)
  }
}

/** What the yaml package makes of a mapping, a list or a value. */
interface YamlNode {
  readonly range?: readonly number[] | null
  readonly items?: readonly (YamlNode & { key?: YamlNode & { value?: unknown }; value?: unknown })[]
}

/** Where a key stands in the file; that of its nearest parent where it has no text of its own. */
function offsetOf(node: unknown, key: string, otherwise = 0): number {
  // Reason for the cast: the package's types are generic over what the file may contain.
  const { range, items = [] } = (node ?? {}) as YamlNode
  const start = range?.[0] ?? otherwise
  if (key === '') return start
  const named = items.map((item, index) => ({ item, name: String(item.key?.value ?? index) }))
  const found =
    named.find(({ name }) => key === name) ?? named.find(({ name }) => key.startsWith(`${name}.`))
  if (found === undefined) return start
  const { item, name } = found
  const at = item.key?.range?.[0] ?? start
  const rest = key.slice(name.length + 1)
  return rest === '' ? at : offsetOf(item.key === undefined ? item : item.value, rest, at)
}

function readEnvironment(env: Environment, given: GivenKeys, problems: string[]): void {
  for (const name of Object.keys(env).sort()) {
    if (!name.startsWith(PREFIX) || NOT_KEYS.test(name) || KUBERNETES.test(name)) continue
    const words = name.slice(PREFIX.length).toLowerCase().split('__')
    place(
      { segments: words, written: words.join('.'), raw: env[name], origin: name },
      given,
      problems,
    )
  }
}

function place(
  setting: { segments: readonly string[]; written: string; raw: unknown; origin: string },
  given: GivenKeys,
  problems: string[],
): void {
  const found = locate(configFields, setting.segments)
  if (found.kind === 'field') {
    given.set(found.key, { raw: setting.raw, origin: setting.origin })
  } else if (found.kind === 'branch') {
    const inner = Object.keys(found.within).join(', ')
    problems.push(`${setting.origin}: ${found.key} is a section; set one of its keys: ${inner}`)
  } else {
    problems.push(`${setting.origin}: ${unknownKey(configFields, setting.written)}`)
  }
}

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
    const fits = node.node === 'named' ? NAME.test(chosen) : /^\d{1,2}$/.test(chosen)
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

function own(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}

function shown(raw: unknown): string {
  const written = JSON.stringify(raw) ?? String(raw)
  return written.length > 60 ? `${written.slice(0, 57)}...` : written
}
