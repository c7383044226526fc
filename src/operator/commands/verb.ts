// Declares the type of a verb of the `sluice` command.
// A verb declares its words, its flags and what it does; parsing, help, completion, printing and
// exit codes are derived from that declaration. A new verb is one file and one line in dispatch.ts.
import { accept, Fault, type Outcome, type RefusalKind, refuse } from '../../base/errors.ts'
import type { Cluster } from '../../customers/cluster/cluster.ts'
import type { ConfigFlag, Loaded, LoadRequest } from '../config/load.ts'

export interface FlagSpec {
  /** Without the dashes. */
  readonly name: string
  readonly doc: string
  /** One letter, for `-r` beside `--reset`. */
  readonly short?: string
  /** Placeholder of the value in help, several where it takes several; absent for a switch. */
  readonly value?: string | readonly string[]
  /** The value may be left out; it is '' then. */
  readonly mayLackValue?: boolean
  /** The allowed values, for completion and validation. */
  readonly options?: readonly string[]
  /** Bounds of a value that must be an integer. */
  readonly range?: readonly [min: number, max: number]
  /** The configuration key that it is short for. */
  readonly sets?: string
  /** May be given more than once. */
  readonly many?: boolean
  /** What completion offers by asking the registry or the contexts of the user. */
  readonly words?: 'labels' | 'contexts'
}

export interface PositionalSpec {
  readonly name: string
  readonly doc: string
  readonly optional?: boolean
  /** The last one may be given several times. */
  readonly many?: boolean
  /** Words that it may be, for completion. */
  readonly options?: readonly string[]
  /** What completion offers by asking the registry or the contexts of the user. */
  readonly words?: 'labels' | 'contexts'
  /** Its name in the operator API, where that is another. */
  readonly key?: string
}

/** The result of a verb: the same facts as JSON and as text. */
export interface Report {
  readonly json: unknown
  readonly text: string
  /** 1 when the command worked but its result is a failure (doctor, audit verify). */
  readonly exit?: 0 | 1
  /** True when everything was already printed while running (tail, replay). */
  readonly isPrinted?: boolean
}

export interface Call {
  readonly positionals: readonly string[]
  readonly flags: ReadonlyMap<string, readonly string[]>
  readonly loaded: Loaded
  /** What the configuration was loaded from; `config check` loads it once more. */
  readonly request: LoadRequest
  /** Who makes it, for the audit table; the user of this process when absent. */
  readonly who?: string
  /** Takes a sentence that the result does not have; stderr when absent. */
  warn?(text: string): void
  /** Connections to the cluster that are kept for many calls; made for this one when absent. */
  readonly cluster?: Cluster | undefined
}

export interface Verb {
  readonly words: readonly string[]
  readonly summary: string
  /** Command lines without `sluice`, for the help; the first one is the most common. */
  readonly examples: readonly string[]
  /** True where it asks before an irreversible change; --yes skips the question. */
  readonly asks?: boolean
  readonly positionals?: readonly PositionalSpec[]
  readonly flags?: readonly FlagSpec[]
  /** Flags of similar tools that it lacks, each with a sentence on what to do instead. */
  readonly foreignFlags?: Readonly<Record<string, string>>
  /** True where every configuration key is taken as a flag: serve, config check, config print. */
  readonly takesConfig?: boolean
  /** True where an invalid configuration must not stop the verb (completion, config docs). */
  readonly needsNoConfig?: boolean
  /** Set where the operator API has it: GET for one that reads, POST for one that changes. */
  readonly api?: 'read' | 'change'
  run(call: Call): Promise<Outcome<Report>>
}

export interface ParsedArgs {
  readonly positionals: readonly string[]
  readonly flags: ReadonlyMap<string, readonly string[]>
  readonly configFlags: readonly ConfigFlag[]
}

/** CONTRACT of the command: what a script may rely on. */
export const EXIT = { done: 0, refused: 1, usage: 2, notFound: 3 } as const

/** Short and long name, values in their brackets, whether it may be repeated, the doc. */
const flagRow = /^(?:-(\w) )?--(\S+)((?: <[^>]*>| \[[^\]]*\])*)( \.\.\.)? {2,}(.*)$/

/**
 * The flags of a text with one a line, as help shows them; other lines continue the doc above.
 *
 *   -w --warp-slot [slot 0..99]     Skip to this slot.    its value may be left out; an integer
 *   --account <address> <file> ...  An account.           two values; may be given more than once
 *   --output <form table|json>      How to print.         one of these words
 */
export function flagTable(text: string): FlagSpec[] {
  const rows = text.trim().split(/\n *(?=-)/)
  return rows.map((row) => {
    const cells = flagRow.exec(row.replaceAll(/\n */g, ' '))!
    const [, short, name = '', values = '', many, doc = ''] = cells
    const given = [...values.matchAll(/[<[](\S+?)(?: (\S+))?[>\]](?= |$)/g)]
    const [first, ...others] = given.map(([, value = '']) => value)
    const allowed = given[0]?.[2]
    const range = /^(\d+)\.\.(\d+)$/.exec(allowed ?? '')
    return {
      name,
      doc,
      ...(short && { short }),
      ...(first && { value: others.length === 0 ? first : [first, ...others] }),
      ...(values.startsWith(' [') && { mayLackValue: true }),
      ...(range && { range: [Number(range[1]), Number(range[2])] as const }),
      ...(allowed && !range && { options: allowed.split('|') }),
      ...(many && { many: true }),
    }
  })
}

export const commonFlags = flagTable(`
  --data <folder>             Data folder [./data].
  --config <file>             Configuration file (YAML).
  --output <form table|json>  How to print [table]; --json is short for --output json.
  --yes                       Do not ask before an irreversible change; scripts need it for one.
  --help                      Show help.`)

/** Every flag of a verb: its own, and the common ones that it does not override. */
export function flagsOf(verb: Pick<Verb, 'flags'>): readonly FlagSpec[] {
  const own = verb.flags ?? []
  return [...own, ...commonFlags.filter(({ name }) => own.every((flag) => flag.name !== name))]
}

/** What help and completion show: --yes, which every verb takes, only where it has an effect. */
export function shownFlagsOf(verb: Pick<Verb, 'flags' | 'asks'>): readonly FlagSpec[] {
  return flagsOf(verb).filter(({ name }) => name !== 'yes' || verb.asks === true)
}

/** A usage error of the command line, as opposed to a refusal of the registry: exit code 2. */
export function misuse(message: string): { ok: false; refusal: ReturnType<typeof usage> } {
  return { ok: false, refusal: usage(message) }
}

/** The refusal of a fault; any other error is thrown on. */
export function refusedFault(error: unknown): Outcome<never> {
  if (!(error instanceof Fault)) throw error
  return refuse('unavailable', error.kind, error.message)
}

export function exitOf(refusal: { kind: RefusalKind; code: string }): number {
  if (refusal.code === USAGE) return EXIT.usage
  return refusal.kind === 'not-found' ? EXIT.notFound : EXIT.refused
}

export function flagOf(call: Pick<Call, 'flags'>, name: string): string | undefined {
  return call.flags.get(name)?.at(-1)
}

/** The value of a flag with a range; `initial` when it is not given. */
export function numberOf<T>(call: Pick<Call, 'flags'>, name: string, initial: T): number | T {
  const text = flagOf(call, name)
  return text === undefined ? initial : Number(text)
}

/** The placeholders of a flag's values; none for a switch. */
export function valuesOf({ value = [] }: FlagSpec): readonly string[] {
  return typeof value === 'string' ? [value] : value
}

/** The values of a flag that takes several, as one list for each time it was given. */
export function groupsOf(call: Pick<Call, 'flags'>, name: string, size: number): string[][] {
  const values = call.flags.get(name) ?? []
  return Array.from({ length: values.length / size }, (_, group) =>
    values.slice(group * size, (group + 1) * size),
  )
}

export function isJson(call: Pick<Call, 'flags'>): boolean {
  return flagOf(call, 'output') === 'json'
}

export function hasSwitch(call: Pick<Call, 'flags'>, name: string): boolean {
  return call.flags.has(name)
}

/** Values of a flag that may be repeated and may contain commas: `--cidr a,b --cidr c`. */
export function listOf(call: Pick<Call, 'flags'>, name: string): string[] | undefined {
  const values = call.flags.get(name)
  return values
    ?.flatMap((value) => value.split(','))
    .map((part) => part.trim())
    .filter((part) => part !== '')
}

const lamportsPerSol = 1_000_000_000n

/** An amount of SOL as lamports; null when the flag is not given. */
export function lamportsOf(call: Pick<Call, 'flags'>, name: string): Outcome<bigint | null> {
  const text = flagOf(call, name)
  if (text === undefined) return accept(null)
  const [, whole, part = ''] = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text) ?? []
  if (whole === undefined) return misuse(`--${name} must be an amount of SOL, such as 1000 or 0.5`)
  return accept(BigInt(whole) * lamportsPerSol + BigInt(part.padEnd(9, '0')))
}

const USAGE = 'usage'

function usage(message: string) {
  return refuse('invalid', USAGE, message).refusal
}
