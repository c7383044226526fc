// Loads the configuration: defaults, then file, then environment, then flags; later wins.
// The only file that reads process.env.
// All problems are collected before the load is refused, so that one run reports them all.
import { readFile, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { messageOf } from '../../base/errors.ts'
import type { Field } from '../../base/fields.ts'
import { type Config, checkConfig, configFields } from './config.ts'
import { buildValues, type GivenKeys, locate, readFileTree, unknownKey } from './tree.ts'

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
    if (size > FILE_BYTES_MAX) {
      problems.push(`${path}: larger than ${FILE_BYTES_MAX} bytes`)
      return
    }
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
