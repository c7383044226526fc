// Runs a command line: picks the verb, parses, loads the configuration, runs, prints, exit code.
import { isBug, messageOf, type Refusal } from '../../base/errors.ts'
import { configHelp } from '../config/docs.ts'
import { type LoadRequest, loadConfig } from '../config/load.ts'
import { chooseVerb, familyOf, parseArgs, splitLeading } from './args.ts'
import { type Form, printRefusal, printReport, wrapped } from './output.ts'
import {
  commonFlags,
  EXIT,
  exitOf,
  type FlagSpec,
  flagOf,
  hasSwitch,
  type ParsedArgs,
  shownFlagsOf,
  type Verb,
  valuesOf,
} from './verb.ts'
import { packageVersion, versionVerb } from './version.ts'

export async function dispatch(argv: readonly string[]): Promise<number> {
  if (isVersion(argv[0])) return print(packageVersion())
  // Which flags before the verb take a value depends on all verbs.
  const hasLeading = argv[0]?.startsWith('-') === true
  const { leading, rest } = splitLeading(hasLeading ? await loadVerbs() : [], argv)
  const [first = '', ...others] = rest
  if (leading.some(isVersion)) return print(packageVersion())
  const wantsHelp = [...leading, ...rest].some((word) => /^(--help|-h)$/.test(word))
  if (first === 'help') return dispatch([...leading, ...others, '--help'])
  if (first === '') {
    const text = overview(await loadVerbGroups())
    if (wantsHelp) return print(text)
    process.stderr.write(`${text}\n`)
    return EXIT.usage
  }
  const form = formOf(argv)
  const verbs = await loadVerbsFor(first)
  const chosen = chooseVerb(verbs, rest)
  if (!chosen.ok) {
    const family = wantsHelp ? familyOf(verbs, first) : []
    if (family.length > 0) return print(overview([{ title: 'Commands', verbs: family }]))
    return failWith(chosen.refusal, form, 'npx --no -- sluice --help lists every command.')
  }
  const { verb } = chosen.value
  const parsed = parseArgs(verb, [...leading, ...chosen.value.rest])
  if (!parsed.ok)
    return failWith(
      parsed.refusal,
      form,
      `npx --no -- sluice ${verb.words.join(' ')} --help shows its flags.`,
    )
  if (hasSwitch(parsed.value, 'help')) return print(helpOf(verb))
  return runVerb(verb, parsed.value, form)
}

async function runVerb(verb: Verb, args: ParsedArgs, form: Form): Promise<number> {
  const file = flagOf(args, 'config')
  const request: LoadRequest = { flags: args.configFlags, ...(file === undefined ? {} : { file }) }
  const loaded = await loadConfig(verb.needsNoConfig === true ? { env: {} } : request)
  if (!loaded.ok) return printProblems(loaded.problems, form)
  try {
    const outcome = await verb.run({
      positionals: args.positionals,
      flags: args.flags,
      loaded,
      request,
    })
    if (!outcome.ok) {
      if (outcome.refusal.data !== undefined) await printSecrets(outcome.refusal, form)
      return failWith(outcome.refusal, form)
    }
    printReport(outcome.value, form)
    return outcome.value.exit ?? EXIT.done
  } catch (error) {
    if (isBug(error)) throw error
    const refusal = { kind: 'unavailable', code: 'fault', message: messageOf(error) } as const
    return failWith(refusal, form, 'Run npx --no -- sluice doctor to find the cause.')
  }
}

async function printSecrets(refusal: Refusal, form: Form): Promise<void> {
  const { secretsInDoubt } = await import('./subscription.ts')
  const report = secretsInDoubt(refusal)
  if (report !== null) printReport(report, form)
}

function isVersion(word: string | undefined): boolean {
  return word !== undefined && /^(--version|-[vV])$/.test(word)
}

/** The output form is needed before parsing, to print parse errors in it. */
function formOf(argv: readonly string[]): Form {
  const isJson = argv.some(
    (word, index) =>
      word === '--json' ||
      word === '--output=json' ||
      (word === '--output' && argv[index + 1] === 'json'),
  )
  return isJson ? 'json' : 'table'
}

function print(text: string): number {
  process.stdout.write(`${text}\n`)
  return EXIT.done
}

function failWith(refusal: Refusal, form: Form, hint?: string): number {
  printRefusal(refusal, form, hint)
  return exitOf(refusal)
}

function printProblems(problems: readonly string[], form: Form): number {
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  const message = `the configuration has ${count}`
  const lines = problems.map((problem) => `  ${problem}`).join('\n')
  const whole = form === 'json' ? `${message}: ${problems.join('; ')}` : `${message}\n${lines}`
  printRefusal({ code: 'bad-configuration', message: whole }, form, HELP_CONFIG)
  return EXIT.usage
}

const HELP_CONFIG = 'npx --no -- sluice config docs lists every key with its default and bounds.'

// A new verb is a file of its own and one row here; help and completion are derived from it.
// A row is loaded when its word is typed: a command pays for its own modules alone.

interface Row {
  /** The first word of its verbs. */
  readonly words: readonly [string]
  load(): Promise<readonly Verb[]>
}

const groups: readonly { readonly title: string; readonly rows: readonly Row[] }[] = [
  {
    title: 'Run',
    rows: [
      row('serve', async () => [(await import('./serve.ts')).serveVerb]),
      row('indexer', async () => [(await import('./indexer-serve.ts')).indexerServeVerb]),
      row('devnode', async () => [(await import('./devnode.ts')).devnodeVerb]),
    ],
  },
  {
    title: 'Provision',
    rows: [
      row('subscription', async () => (await import('./subscription.ts')).subscriptionVerbs),
      row('token', async () => (await import('./subscription.ts')).tokenVerbs),
      row('operator', async () => (await import('./operator.ts')).operatorVerbs),
      row('consumer', async () => (await import('./subscription.ts')).consumerVerbs),
      row('destination', async () => (await import('./subscription.ts')).destinationVerbs),
      row('indexer', async () => (await import('./subscription.ts')).indexerVerbs),
      row('indexer', async () => (await import('./operator.ts')).enrollVerbs),
    ],
  },
  {
    title: 'Usage and audit',
    rows: [
      row('note', async () => (await import('./subscription.ts')).noteVerbs),
      row('usage', async () => [(await import('./usage.ts')).usageVerb]),
      row('audit', async () => (await import('./usage.ts')).auditVerbs),
      row('backup', async () => [(await import('./backup.ts')).backupVerb]),
      row('restore', async () => [(await import('./backup.ts')).restoreVerb]),
    ],
  },
  {
    title: 'Look at the server',
    rows: [
      row('status', async () => [(await import('./status.ts')).statusVerb]),
      row('top', async () => [(await import('./top.ts')).topVerb]),
      row('doctor', async () => [(await import('./doctor.ts')).doctorVerb]),
      row('products', async () => [(await import('./status.ts')).productsVerb]),
      row('tip-accounts', async () => [(await import('./status.ts')).tipAccountsVerb]),
      row('tips', async () => [(await import('./status.ts')).tipsVerb]),
      row('shreds', async () => [(await import('./shreds.ts')).shredsVerb]),
      row('node', async () => (await import('./status.ts')).nodeVerbs),
    ],
  },
  {
    title: 'Use it',
    rows: [
      row('query', async () => [(await import('./query.ts')).queryVerb]),
      row('call', async () => [(await import('./call.ts')).callVerb]),
      row('me', async () => [(await import('./call.ts')).meVerb]),
      row('tail', async () => [(await import('./tail.ts')).tailVerb]),
      row('shreds', async () => [(await import('./shreds.ts')).listenVerb]),
      row('context', async () => (await import('./context.ts')).contextVerbs),
    ],
  },
  {
    title: 'Measure and replay',
    rows: [
      row('bench', async () => (await import('./bench.ts')).benchVerbs),
      row('record', async () => (await import('./record.ts')).recordVerbs),
      row('replay', async () => [(await import('./tail.ts')).replayVerb]),
      row('shreds', async () => [(await import('./shreds.ts')).replayShredsVerb]),
    ],
  },
  {
    title: 'Set up',
    rows: [
      row('config', async () => (await import('./config.ts')).configVerbs),
      row('cluster', async () => (await import('./cluster.ts')).clusterVerbs),
      row('completion', async () => [(await import('./completion.ts')).completionVerb(loadVerbs)]),
      row('version', async () => [versionVerb]),
    ],
  },
]

/** Every verb under the title of its group. */
export function loadVerbGroups(): Promise<readonly VerbGroup[]> {
  return Promise.all(groups.map(async ({ title, rows }) => ({ title, verbs: await loadAll(rows) })))
}

export async function loadVerbs(): Promise<readonly Verb[]> {
  return loadAll(groups.flatMap(({ rows }) => rows))
}

/** The verbs that a command line with this first word can mean; all of them where none fits. */
export function loadVerbsFor(first: string): Promise<readonly Verb[]> {
  const rows = groups.flatMap((group) => group.rows)
  const family = familyOf(rows, first)
  return loadAll(family.length > 0 ? family : rows)
}

async function loadAll(rows: readonly Row[]): Promise<readonly Verb[]> {
  return (await Promise.all(rows.map(({ load }) => load()))).flat()
}

function row(word: string, load: Row['load']): Row {
  return { words: [word], load }
}

export interface VerbGroup {
  readonly title: string
  readonly verbs: readonly Verb[]
}

type HelpRow = readonly [left: string, right: string]

/** Where the output is no terminal. */
const widthDefault = 100
/** A text beside a longer left column starts on a line of its own. */
const leftMax = 40

export function overview(groups: readonly VerbGroup[], width = terminalWidth()): string {
  const flags = commonFlags.filter(({ name }) => name !== 'yes')
  return [
    'sluice: access to blockchain data and transaction submission, sold by the token',
    ...groups.flatMap(({ title, verbs }) => [
      '',
      title,
      aligned(
        verbs.map((verb) => [`  ${synopsis(verb)}`, verb.summary]),
        width,
      ),
    ]),
    '',
    'Flags of every command, also before it',
    aligned(
      flags.map((flag) => [`  ${shownFlag(flag)}`, flag.doc]),
      width,
    ),
    '',
    'Exit codes: 0 done, 1 refused, 2 usage, 3 not found.',
    'A command may be shortened: npx --no -- sluice sub list.',
    'npx --no -- sluice <command> --help has examples.',
  ].join('\n')
}

export function helpOf(verb: Verb, width = terminalWidth()): string {
  const positionals = (verb.positionals ?? []).map(
    (spec): HelpRow => [`  <${spec.name}>`, spec.doc],
  )
  const flags = shownFlagsOf(verb).map((flag): HelpRow => [`  ${shownFlag(flag)}`, docOf(flag)])
  const parts = [
    `sluice ${synopsis(verb)} [flags]`,
    '',
    ...wrapped(verb.summary, width),
    '',
    'Examples',
    ...verb.examples.map((line) => `  npx --no -- sluice ${line}`),
  ]
  if (positionals.length > 0) parts.push('', 'Arguments', aligned(positionals, width))
  parts.push('', 'Flags', aligned(flags, width))
  if (verb.takesConfig === true) parts.push('', ...configKeys(width))
  return parts.join('\n')
}

/** The keys by section. */
function configKeys(width: number): string[] {
  return [
    'Configuration keys, also in the file and the environment',
    '(npx --no -- sluice config docs <key> shows one with its bounds and its variable)',
    ...configHelp().flatMap(({ title, rows }) => [
      '',
      ...wrapped(title, width),
      aligned(
        rows.map(({ key, text }) => [`  --${key}`, text]),
        width,
      ),
    ]),
  ]
}

function synopsis(verb: Verb): string {
  const positionals = (verb.positionals ?? []).map((spec) => {
    const shown = spec.optional === true ? `[${spec.name}]` : `<${spec.name}>`
    return spec.many === true ? `${shown}...` : shown
  })
  return [...verb.words, ...positionals].join(' ')
}

function shownFlag(flag: FlagSpec): string {
  const [open, close] = flag.mayLackValue === true ? '[]' : '<>'
  const values = valuesOf(flag).map((value) => ` ${open}${value}${close}`)
  const short = flag.short === undefined ? '' : `-${flag.short}, `
  return `${short}--${flag.name}${values.join('')}`
}

function docOf(flag: FlagSpec): string {
  const options = flag.options === undefined ? '' : ` One of ${flag.options.join(', ')}.`
  return `${flag.doc}${options}${flag.many === true ? ' May be repeated.' : ''}`
}

/** Two columns; the right one is wrapped. */
function aligned(rows: readonly HelpRow[], width: number): string {
  const fitting = rows.map(([left]) => left.length).filter((length) => length <= leftMax)
  const indent = Math.max(0, ...fitting)
  return rows
    .flatMap(([left, right]) => {
      const lines = wrapped(right, Math.max(20, width - indent - 2))
      const isLong = left.length > indent
      const [first = '', ...rest] = isLong ? ['', ...lines] : lines
      const indented = rest.map((line) => `${' '.repeat(indent)}  ${line}`)
      return [`${left.padEnd(indent)}  ${first}`.trimEnd(), ...indented]
    })
    .join('\n')
}

function terminalWidth(): number {
  return process.stdout.columns || widthDefault
}
