import { describe, expect, test } from 'vitest'
import { chooseVerb, parseArgs } from '../../../../src/operator/commands/args.ts'
import {
  helpOf,
  loadVerbGroups,
  loadVerbs,
  overview,
} from '../../../../src/operator/commands/dispatch.ts'

const verbs = await loadVerbs()
const verbGroups = await loadVerbGroups()

/** The words of a command line, without what a shell would take for itself. */
function wordsOf(line: string): string[] {
  const own = line.split(/ (?:[|<]|>>) /)[0]!
  return [...own.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? '')
}

describe('help', () => {
  test.each(verbs.map((verb) => [verb.words.join(' '), verb] as const))(
    'of %s has examples that are valid command lines',
    (name, verb) => {
      expect(verb.examples.length).toBeGreaterThan(0)
      for (const line of verb.examples) {
        expect(helpOf(verb, 500)).toContain(`npx --no -- sluice ${line}`)
        const chosen = chooseVerb(verbs, wordsOf(line))
        expect(chosen.ok && chosen.value.verb.words.join(' '), line).toBe(name)
        const parsed = chosen.ok ? parseArgs(verb, chosen.value.rest) : chosen
        expect(parsed.ok ? '' : parsed.refusal.message, line).toBe('')
      }
    },
  )

  test('shows --yes only where a verb asks', () => {
    const asking = verbs.filter((verb) => helpOf(verb).includes('--yes')).map((one) => one.words)
    expect(asking.map((words) => words.join(' ')).sort()).toEqual([
      'consumer reset',
      'destination clear',
      'indexer revoke',
      'indexer rotate',
      'operator revoke',
      'restore',
      'subscription end',
      'subscription suspend',
      'token rotate',
    ])
    expect(overview(verbGroups)).not.toContain('--yes')
  })

  test('lists every verb under the title of its group', () => {
    const text = overview(verbGroups, 200)
    for (const { title, verbs: members } of verbGroups) {
      expect(text).toContain(`\n\n${title}\n`)
      for (const { words } of members)
        expect(text).toMatch(new RegExp(`^ {2}${words.join(' ')}`, 'm'))
    }
  })

  test('fits the width of the terminal', () => {
    const texts = [overview(verbGroups, 80), ...verbs.map((verb) => helpOf(verb, 80))]
    const lines = texts.flatMap((text) => text.split('\n'))
    // Examples are for copying: they stay on one line. Keys and words are never broken.
    const wide = lines.filter((line) => line.length > 80 && !/npx --no|^\S/.test(line))
    expect(wide).toEqual([])
  })
})
