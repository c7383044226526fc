// Renders the help texts from the declarations of the verbs, within the width of the terminal.
import { configFields } from '../config/config.ts'
import { configHelp } from '../config/docs.ts'
import { wrapped } from './output.ts'
import { commonFlags, type FlagSpec, shownFlagsOf, type Verb, valuesOf } from './verb.ts'

export interface VerbGroup {
  readonly title: string
  readonly verbs: readonly Verb[]
}

type Row = readonly [left: string, right: string]

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
  const positionals = (verb.positionals ?? []).map((spec): Row => [`  <${spec.name}>`, spec.doc])
  const flags = shownFlagsOf(verb).map((flag): Row => [`  ${shownFlag(flag)}`, docOf(flag)])
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
    ...configHelp(configFields).flatMap(({ title, rows }) => [
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
function aligned(rows: readonly Row[], width: number): string {
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
