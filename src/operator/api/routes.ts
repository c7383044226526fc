// Makes routes of the operator API from the verbs of the command, and arguments from their input.
// A route has no code of its own: its input becomes the words of a command line, is parsed as one
// and runs the same verb, so that checks, effects and audit entries are those of the command.
//
//   POST /v1/token/rotate {"subscription":"acme","grace":"1h"}
//     ─► --grace=1h -- acme ─► parseArgs ─► verb.run ─► its JSON
import { codesOf, isBug, messageOf, type Outcome, type Refusal, refuse } from '../../base/errors.ts'
import { outcomeUnknown } from '../../customers/subscriptions/verbs.ts'
import { parseArgs } from '../commands/args.ts'
import { loadVerbsFor } from '../commands/dispatch.ts'
import { secretsInDoubt } from '../commands/subscription.ts'
import type { Call, FlagSpec, ParsedArgs, PositionalSpec, Verb } from '../commands/verb.ts'
import type { Config } from '../config/config.ts'

export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
  /** Whether a change was made is not known. */
  readonly isInDoubt?: boolean
}

/** A member of the JSON body of a POST, or a parameter of the query of a GET. */
export interface Input {
  readonly key: string
  readonly spec: FlagSpec | PositionalSpec
  readonly isPositional: boolean
  readonly isRequired: boolean
}

export interface Route {
  readonly path: string
  readonly method: 'GET' | 'POST'
  readonly verb: Verb
  readonly inputs: readonly Input[]
}

/** Flags of the terminal: an answer is JSON, and is sent once. */
const terminalFlags = new Set(['watch', 'output'])

/**
 * The routes of verbs with this first word, by path; only their modules are loaded. Of all that the
 * API has where no verb begins with it.
 */
export async function loadRoutes(first = ''): Promise<ReadonlyMap<string, Route>> {
  const verbs = (await loadVerbsFor(first)).filter(({ api }) => api !== undefined)
  return new Map(verbs.map(routeOf).map((route) => [route.path, route]))
}

function routeOf(verb: Verb): Route {
  const { api, words, positionals = [], flags = [] } = verb
  const given = positionals.map((spec) => ({
    key: spec.key ?? spec.name,
    spec,
    isPositional: true,
    isRequired: spec.optional !== true,
  }))
  const named = flags
    .filter(({ name }) => !terminalFlags.has(name))
    .map((spec) => ({ key: spec.name, spec, isPositional: false, isRequired: false }))
  const method = api === 'read' ? 'GET' : 'POST'
  return { path: `/v1/${words.join('/')}`, method, verb, inputs: [...given, ...named] }
}

/** The arguments that a command line with this input has. */
export function argumentsOf(
  { verb, inputs }: Route,
  given: Readonly<Record<string, unknown>>,
): Outcome<ParsedArgs> {
  const unknown = Object.keys(given).find((name) => inputs.every(({ key }) => key !== name))
  if (unknown !== undefined) {
    const known = inputs.map(({ key }) => key).join(', ') || 'nothing'
    return refuse(
      'invalid',
      'unknown-input',
      `unknown input; ${verb.words.join(' ')} takes ${known}`,
    )
  }
  const flags: string[] = []
  const positionals: string[] = []
  for (const { key, spec, isPositional, isRequired } of inputs) {
    const value = Object.hasOwn(given, key) ? given[key] : undefined
    if (value === undefined) {
      if (isRequired) return refuse('invalid', 'missing-input', `${key} is missing: ${spec.doc}`)
      continue
    }
    const texts = textsOf(value, spec.many === true)
    if (texts === null) return refuse('invalid', 'bad-input', `${key} must be ${wantedOf(spec)}`)
    if (isPositional) positionals.push(...texts)
    else flags.push(...texts.map((text) => `--${spec.name}=${text}`))
  }
  return parseArgs(verb, [...flags, '--', ...positionals])
}

/** Runs the verb and answers as HTTP does. Throws what is a bug. */
export async function runRoute(
  { verb }: Route,
  { positionals, flags }: ParsedArgs,
  { config, ...given }: { readonly config: Config } & Pick<Call, 'who' | 'cluster'>,
): Promise<Answer> {
  // Whoever sends it has decided.
  const all = new Map([...flags, ['output', ['json']], ['yes', ['true']]])
  const loaded = { config, origins: new Map<string, string>() }
  const warnings: string[] = []
  const warn = (text: string) => void warnings.push(text)
  try {
    const outcome = await verb.run({ positionals, flags: all, loaded, request: {}, warn, ...given })
    if (!outcome.ok) return refusalAnswer(outcome.refusal)
    // Reason for the cast: every verb of the API reports an object.
    const json = outcome.value.json as object
    return jsonAnswer(200, warnings.length === 0 ? json : { ...json, warnings })
  } catch (error) {
    if (isBug(error)) throw error
    return refusalAnswer({ kind: 'unavailable', code: 'fault', message: messageOf(error) })
  }
}

export function jsonAnswer(status: number, value: unknown): Answer {
  return { status, body: `${JSON.stringify(value)}\n` }
}

/** A refusal with the status of its kind, or one that only HTTP has. */
export function refusalAnswer(refusal: Refusal, status = codesOf[refusal.kind].http): Answer {
  const { code, message, retryAfterMs } = refusal
  const secrets = refusal.data === undefined ? null : secretsInDoubt(refusal)
  const error = { code, message, ...(secrets !== null && { data: secrets.json }) }
  const retryAfter = String(Math.ceil((retryAfterMs ?? 0) / 1000))
  return {
    ...jsonAnswer(status, { error }),
    ...(code === outcomeUnknown && { isInDoubt: true }),
    ...(retryAfterMs !== undefined && { headers: { 'retry-after': retryAfter } }),
  }
}

export function refusedAnswer(refusal: Parameters<typeof refuse>, status?: number): Answer {
  return refusalAnswer(refuse(...refusal).refusal, status)
}

/** A value as the words of its flag; null where it is of another type. An empty list is "". */
function textsOf(value: unknown, isMany: boolean): string[] | null {
  if (isMany && Array.isArray(value)) {
    const texts = value.map((item) => textsOf(item, false)?.[0])
    if (texts.length === 0) return ['']
    return texts.every((text) => text !== undefined) ? texts : null
  }
  return typeof value === 'string' || typeof value === 'number' ? [String(value)] : null
}

function wantedOf(spec: FlagSpec | PositionalSpec): string {
  if (spec.many === true) return 'a list of texts'
  return 'range' in spec && spec.range !== undefined ? 'an integer' : 'a text'
}
