// Finds the verb that a command line starts with.
// A word may be shortened to a prefix that only one command has. An unknown word is answered with
// the nearest command only where it is a likely misspelling of it.
import { accept, type Outcome } from '../../base/errors.ts'
import { nearest } from '../../base/nearest.ts'
import { misuse, type Verb } from './verb.ts'

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
  return near === null ? '' : `; the nearest is ${quoted(`${before}${near}`)}`
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

function quoted(text: string): string {
  return text.startsWith('-') ? text : `"${text}"`
}
