// Parses the command line: the verb, its positionals, its flags. Thread: main. Pure.
// Usage errors are values whose message names what to write instead.
import { accept, type Outcome } from '../base/errors.ts'
import { nearest } from '../base/nearest.ts'
import { type ConfigFlag, fieldOfFlag } from '../config/load.ts'
import { type FlagSpec, flagsOf, misuse, type ParsedArgs, type Verb } from './verb.ts'

export interface ChosenVerb {
  readonly verb: Verb
  readonly rest: readonly string[]
}

/** The verb whose words `argv` starts with. The longest match wins. */
export function chooseVerb(verbs: readonly Verb[], argv: readonly string[]): Outcome<ChosenVerb> {
  const words = argv.slice(0, firstFlag(argv))
  const fitting = verbs
    .filter((verb) => verb.words.every((word, index) => words[index] === word))
    .sort((a, b) => b.words.length - a.words.length)
  const verb = fitting[0]
  if (verb !== undefined) return accept({ verb, rest: argv.slice(verb.words.length) })
  const family = verbs.filter((candidate) => candidate.words[0] === words[0])
  if (family.length > 0) {
    const second = family.map((candidate) => candidate.words[1] ?? '')
    const given = words[1]
    if (given === undefined) return misuse(`sluice ${words[0]} needs one of: ${second.join(', ')}`)
    const near = `${words[0]} ${nearest(given, second)}`
    return misuse(`unknown command "${words[0]} ${given}"; the nearest is "${near}"`)
  }
  const all = new Set(verbs.map((candidate) => candidate.words[0]!))
  return misuse(`unknown command "${words[0]}"; the nearest is "${nearest(words[0] ?? '', all)}"`)
}

/** Parses the words after the verb. A flag that the verb does not declare is refused. */
export function parseArgs(verb: Verb, rest: readonly string[]): Outcome<ParsedArgs> {
  const specs = flagsOf(verb)
  const positionals: string[] = []
  const flags = new Map<string, string[]>()
  const configFlags: ConfigFlag[] = []
  let at = 0
  while (at < rest.length) {
    const word = rest[at++]!
    if (word === '--') {
      positionals.push(...rest.slice(at))
      break
    }
    if (word === '-h') {
      flags.set('help', [''])
      continue
    }
    if (!word.startsWith('-') || word === '-') {
      positionals.push(word)
      continue
    }
    const { name, inline } = splitFlag(word)
    const spec = specs.find((candidate) => candidate.name === name)
    const isConfig = spec === undefined && verb.takesConfig === true
    if (spec === undefined && !isConfig) return misuse(unknownFlag(verb, specs, word))
    const isSwitch = spec === undefined ? isConfigSwitch(name) : spec.value === undefined
    let value = inline ?? (isSwitch ? 'true' : undefined)
    if (value === undefined && rest[at]?.startsWith('--') === false) value = rest[at++]!
    if (value === undefined) return misuse(`${word} needs a value, such as ${example(word, spec)}`)
    const problem = spec === undefined ? undefined : checkFlag(spec, value, flags.has(name), inline)
    if (problem !== undefined) return misuse(problem)
    if (isConfig || name === 'data') configFlags.push({ key: name, value })
    else flags.set(name, [...(flags.get(name) ?? []), value])
  }
  if (flags.has('help')) return accept({ positionals, flags, configFlags })
  const problem = checkPositionals(verb, positionals)
  return problem === undefined ? accept({ positionals, flags, configFlags }) : misuse(problem)
}

function splitFlag(word: string): { name: string; inline: string | undefined } {
  const equals = word.indexOf('=')
  const name = (equals < 0 ? word : word.slice(0, equals)).replace(/^--?/, '')
  return { name, inline: equals < 0 ? undefined : word.slice(equals + 1) }
}

function isConfigSwitch(name: string): boolean {
  return fieldOfFlag(name)?.type === 'true or false'
}

function checkFlag(
  spec: FlagSpec,
  value: string,
  isRepeated: boolean,
  inline: string | undefined,
): string | undefined {
  if (spec.value === undefined && inline !== undefined) return `--${spec.name} takes no value`
  if (isRepeated && spec.many !== true) return `--${spec.name} is given twice`
  if (spec.range !== undefined && !isInteger(value, spec.range))
    return `--${spec.name} must be an integer, ${spec.range.join(' to ')}`
  if (spec.options === undefined) return undefined
  const parts = spec.many === true ? value.split(',') : [value]
  const wrong = parts.find((part) => !spec.options?.includes(part.trim()))
  if (wrong === undefined) return undefined
  return `--${spec.name} must be one of ${spec.options.join(', ')}`
}

function isInteger(text: string, [min, max]: readonly [number, number]): boolean {
  return /^\d{1,16}$/.test(text) && Number(text) >= min && Number(text) <= max
}

function checkPositionals(verb: Verb, given: readonly string[]): string | undefined {
  const specs = verb.positionals ?? []
  const missing = specs.slice(given.length).find((spec) => spec.optional !== true)
  if (missing !== undefined) return `<${missing.name}> is missing: ${missing.doc}`
  if (given.length > specs.length) return `unexpected "${given[specs.length]}"`
  const empty = given.indexOf('')
  return empty < 0 ? undefined : `<${specs[empty]?.name}> is empty`
}

function unknownFlag(verb: Verb, specs: readonly FlagSpec[], word: string): string {
  const { name } = splitFlag(word)
  if (fieldOfFlag(name) !== null)
    return `--${name} is a configuration key: give it to serve, in the file or in the environment`
  const near = nearest(
    name,
    specs.map((spec) => spec.name),
  )
  return `sluice ${verb.words.join(' ')} has no flag --${name}; the nearest is --${near}`
}

function example(word: string, spec: FlagSpec | undefined): string {
  if (spec?.options !== undefined) return `${word} ${spec.options[0]}`
  return `${word} <${spec?.value ?? 'value'}>`
}

function firstFlag(argv: readonly string[]): number {
  const found = argv.findIndex((word) => word.startsWith('-'))
  return found < 0 ? argv.length : found
}
