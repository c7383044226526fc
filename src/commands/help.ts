// Renders the help texts from the declarations of the verbs. Thread: main. Pure.
import { configFields } from '../config/config.ts'
import { renderConfigHelp } from '../config/docs.ts'
import { commonFlags, type FlagSpec, flagsOf, type Verb, valuesOf } from './verb.ts'

export function overview(verbs: readonly Verb[]): string {
  const rows = verbs.map((verb) => [`  ${synopsis(verb)}`, verb.summary] as const)
  const flags = commonFlags.map((flag) => [`  ${shownFlag(flag)}`, flag.doc] as const)
  return [
    'sluice: access to blockchain data and transaction submission, sold by the token',
    '',
    'Commands',
    aligned(rows),
    '',
    'Flags of every command',
    aligned(flags),
    '',
    'Exit codes: 0 done, 1 refused, 2 usage, 3 not found.',
    'sluice <command> --help shows more.',
  ].join('\n')
}

export function helpOf(verb: Verb): string {
  const positionals = (verb.positionals ?? []).map(
    (spec) => [`  <${spec.name}>`, spec.doc] as const,
  )
  const flags = flagsOf(verb).map((flag) => [`  ${shownFlag(flag)}`, docOf(flag)] as const)
  const parts = [
    `sluice ${synopsis(verb)} [flags]`,
    '',
    verb.summary,
    '',
    aligned([...positionals, ...flags]),
  ]
  if (verb.takesConfig === true)
    parts.push(
      '',
      'Configuration keys (also in the file and the environment)',
      renderConfigHelp(configFields),
    )
  return parts.join('\n')
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

function aligned(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `${left.padEnd(width)}  ${right}`).join('\n')
}
