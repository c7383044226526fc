// Parses the flags and positionals of a command line.
// Usage errors are values whose message names what to write instead.
import { accept, type Outcome } from '../../base/errors.ts'
import { isSwitch } from '../../base/fields.ts'
import { nearest } from '../../base/nearest.ts'
import { type ConfigFlag, fieldOfFlag } from '../config/load.ts'
import {
  commonFlags,
  type FlagSpec,
  flagsOf,
  misuse,
  type ParsedArgs,
  type Verb,
  valuesOf,
} from './verb.ts'

/** Flags given before the verb, with their values, and the words that follow. */
export function splitLeading(
  verbs: readonly Verb[],
  argv: readonly string[],
): { readonly leading: readonly string[]; readonly rest: readonly string[] } {
  const specs = [...commonFlags, ...verbs.flatMap((verb) => verb.flags ?? [])]
  let at = 0
  for (let word = argv[0]; word !== undefined && /^-./.test(word) && word !== '--'; ) {
    at += 1 + valuesAfter(word, specs)
    word = argv[at]
  }
  return { leading: argv.slice(0, at), rest: argv.slice(at) }
}

function valuesAfter(word: string, specs: readonly FlagSpec[]): number {
  const { spec, name, inline } = flagIn(word, specs)
  if (spec !== undefined && spec.mayLackValue !== true)
    return Math.max(0, valuesOf(spec).length - (inline === undefined ? 0 : 1))
  const field = spec === undefined ? fieldOfFlag(name) : null
  return field === null || inline !== undefined || isSwitch(field) ? 0 : 1
}

/** Parses the words after the verb. A flag that the verb does not declare is refused. */
export function parseArgs(verb: Verb, rest: readonly string[]): Outcome<ParsedArgs> {
  const specs = flagsOf(verb)
  const positionals: string[] = []
  const flags = new Map<string, string[]>()
  const configFlags: ConfigFlag[] = []
  const words = [...rest]
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === '--') {
      positionals.push(...words)
      break
    }
    if (word === '-h') {
      flags.set('help', [''])
      continue
    }
    if (word === '--json') {
      flags.set('output', ['json'])
      continue
    }
    if (!word.startsWith('-') || word === '-') {
      positionals.push(word)
      continue
    }
    const { spec, name, inline } = flagIn(word, specs)
    const isConfig = spec === undefined && verb.takesConfig === true
    if (spec === undefined && !isConfig) return misuse(unknownFlag(verb, specs, word))
    const values = isConfigSwitch(spec, name) ? [inline ?? 'true'] : takeValues(words, spec, inline)
    if (values === null) return misuse(`${word} needs ${example(word, spec)}`)
    const problem =
      spec === undefined ? undefined : checkFlag(spec, values, flags.has(name), inline)
    if (problem !== undefined) return misuse(problem)
    const key = spec?.sets ?? name
    if (isConfig || name === 'data' || spec?.sets !== undefined)
      configFlags.push({ key, value: values[0]! })
    else flags.set(name, [...(flags.get(name) ?? []), ...values])
  }
  if (flags.has('help')) return accept({ positionals, flags, configFlags })
  const problem = checkPositionals(verb, positionals)
  return problem === undefined ? accept({ positionals, flags, configFlags }) : misuse(problem)
}

/** The flag of a word; `inline` is the value after `=`. */
function flagIn(word: string, specs: readonly FlagSpec[]) {
  const equals = word.indexOf('=')
  const given = (equals < 0 ? word : word.slice(0, equals)).replace(/^--?/, '')
  const isShort = !word.startsWith('--')
  const spec =
    specs.find(({ short }) => isShort && short === given) ??
    specs.find(({ name }) => name === given)
  const inline = equals < 0 ? undefined : word.slice(equals + 1)
  return { spec, name: spec?.name ?? given, inline }
}

/** The values of a flag, the inline one first; 'true' for a switch; null when some are missing. */
function takeValues(
  words: string[],
  spec: FlagSpec | undefined,
  inline: string | undefined,
): string[] | null {
  const count = spec === undefined ? 1 : valuesOf(spec).length
  if (count === 0) return [inline ?? 'true']
  const values = inline === undefined ? [] : [inline]
  const mayLack = spec?.mayLackValue === true
  while (values.length < count) {
    // A word that begins as a flag does is none.
    if (words[0]?.startsWith(mayLack ? '-' : '--') !== false) return mayLack ? [''] : null
    values.push(words.shift()!)
  }
  return values
}

/** A configuration key of its own name, without a value where it is true or false. */
function isConfigSwitch(spec: FlagSpec | undefined, name: string): boolean {
  const field = spec === undefined ? fieldOfFlag(name) : null
  return field !== null && isSwitch(field)
}

function checkFlag(
  spec: FlagSpec,
  values: readonly string[],
  isRepeated: boolean,
  inline: string | undefined,
): string | undefined {
  if (spec.value === undefined && inline !== undefined) return `--${spec.name} takes no value`
  if (isRepeated && spec.many !== true) return `--${spec.name} is given twice`
  const [value = ''] = values
  const isLeftOut = spec.mayLackValue === true && value === ''
  if (spec.range !== undefined && !isLeftOut && !isInteger(value, spec.range))
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
  const isOver = given.length > specs.length && specs.at(-1)?.many !== true
  if (isOver) return unexpected(verb, given[specs.length]!)
  const empty = given.indexOf('')
  return empty < 0 ? undefined : `<${(specs[empty] ?? specs.at(-1))?.name}> is empty`
}

/** An address that was meant for the flag of an endpoint is the usual case. */
function unexpected(verb: Verb, word: string): string {
  const flag = verb.flags?.find(({ value }) => String(value).startsWith('kind='))
  const hint = flag === undefined ? '' : `; name an endpoint as --${flag.name} <kind>=${word}`
  return `unexpected "${word}"${hint}`
}

function unknownFlag(verb: Verb, specs: readonly FlagSpec[], word: string): string {
  const { name } = flagIn(word, specs)
  const foreign = verb.foreignFlags?.[name]
  if (foreign !== undefined) return `sluice ${verb.words.join(' ')} has no --${name}: ${foreign}`
  if (fieldOfFlag(name) !== null)
    return `--${name} is a configuration key: give it to serve, in the file or in the environment`
  const known = specs.map((spec) => spec.name)
  return `sluice ${verb.words.join(' ')} has no flag --${name}${nearestHint(name, known, '--')}`
}

function example(word: string, spec: FlagSpec | undefined): string {
  const shown = spec === undefined ? ['value'] : valuesOf(spec)
  const text = spec?.options?.[0] ?? shown.map((name) => `<${name}>`).join(' ')
  const count = shown.length === 1 ? 'a value' : `${shown.length} values`
  return `${count}, such as ${word} ${text}`
}

// A word may be shortened to a prefix that only one command has. An unknown word is answered with
// the nearest command only where it is a likely misspelling of it.

export interface ChosenVerb {
  readonly verb: Verb
  readonly rest: readonly string[]
}

/** Two words with more edits between them are different words. */
const editsMax = 2

/** The verb whose words `argv` starts with. The longest match wins. */
export function chooseVerb(verbs: readonly Verb[], argv: readonly string[]): Outcome<ChosenVerb> {
  const [first, second] = wordsOf(argv)
  if (first === undefined) return misuse('a command is missing')
  const name = expand(first, [...new Set(verbs.map(({ words }) => words[0]!))], '')
  if (!name.ok) return name
  const family = familyOf(verbs, name.value)
  const single = family.find(({ words }) => words.length === 1)
  const seconds = family.flatMap(({ words }) => words[1] ?? [])
  const given = second === undefined ? null : expand(second, seconds, `${name.value} `)
  if (given?.ok === true) {
    const verb = family.find(({ words }) => words[1] === given.value)!
    return accept({ verb, rest: argv.slice(2) })
  }
  if (single !== undefined) return accept({ verb: single, rest: argv.slice(1) })
  return given ?? misuse(`sluice ${name.value} needs one of: ${seconds.join(', ')}`)
}

/** The verbs whose first word is this one, or the one command that it is short for. */
export function familyOf<T extends Pick<Verb, 'words'>>(
  verbs: readonly T[],
  first: string,
): readonly T[] {
  const exact = verbs.filter(({ words }) => words[0] === first)
  if (exact.length > 0 || first === '') return exact
  const longer = verbs.filter(({ words }) => words[0]?.startsWith(first))
  return new Set(longer.map(({ words }) => words[0])).size === 1 ? longer : []
}

/** ` ; the nearest is "x"` for an error message; empty when no candidate is near. */
export function nearestHint(word: string, candidates: Iterable<string>, before = ''): string {
  // Of a short word most of the letters must be right.
  const near = nearest(word, candidates, Math.min(editsMax, word.length >> 1))
  const text = `${before}${near}`
  return near === null ? '' : `; the nearest is ${text.startsWith('-') ? text : `"${text}"`}`
}

/** The word itself when it is known, else the only known one that it is a prefix of. */
function expand(word: string, known: readonly string[], before: string): Outcome<string> {
  if (known.includes(word)) return accept(word)
  const longer = word === '' ? [] : known.filter((one) => one.startsWith(word))
  if (longer.length === 1) return accept(longer[0]!)
  if (longer.length > 1)
    return misuse(`"${before}${word}" is short for several commands: ${longer.join(', ')}`)
  return misuse(`unknown command "${before}${word}"${nearestHint(word, known, before)}`)
}

/** The words before the first flag. */
function wordsOf(argv: readonly string[]): readonly string[] {
  const flag = argv.findIndex((word) => word.startsWith('-'))
  return flag < 0 ? argv : argv.slice(0, flag)
}
