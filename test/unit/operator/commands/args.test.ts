import { describe, expect, test } from 'vitest'
import { chooseVerb, parseArgs, splitLeading } from '../../../../src/operator/commands/args.ts'
import { helpOf, loadVerbs } from '../../../../src/operator/commands/dispatch.ts'
import {
  exitOf,
  flagOf,
  groupsOf,
  listOf,
  type Verb,
} from '../../../../src/operator/commands/verb.ts'

const verbs = await loadVerbs()

const verb: Verb = {
  words: ['thing', 'add'],
  summary: 'Adds.',
  examples: [],
  positionals: [
    { name: 'label', doc: 'Its name.' },
    { name: 'more', doc: 'More.', optional: true },
  ],
  flags: [
    { name: 'product', value: 'a,b', many: true, doc: 'What.' },
    { name: 'plan', value: 'name', doc: 'Which.' },
    { name: 'kind', value: 'kind', options: ['x', 'y'], doc: 'Kind.' },
    { name: 'times', value: 'n', range: [1, 9], doc: 'How often.' },
    { name: 'fast', short: 'f', doc: 'Fast.' },
    { name: 'pair', value: ['from', 'to'], many: true, doc: 'Two.' },
    { name: 'warp', short: 'w', value: 'slot', mayLackValue: true, range: [0, 99], doc: 'Warp.' },
  ],
  foreignFlags: { gossip: 'nobody gossips here' },
  run: () => Promise.reject(new Error('not run here')),
}
const serving: Verb = { ...verb, words: ['serve'], positionals: [], takesConfig: true }

function parsed(words: string[], of = verb) {
  const outcome = parseArgs(of, words)
  if (!outcome.ok) throw new Error(outcome.refusal.message)
  return outcome.value
}

function refused(words: string[], of = verb): string {
  const outcome = parseArgs(of, words)
  if (outcome.ok) throw new Error('was taken')
  expect(exitOf(outcome.refusal)).toBe(2)
  return outcome.refusal.message
}

describe('flags', () => {
  test('are taken in both forms, at any position, repeated where that is meant', () => {
    const args = parsed(['--product=a,b', 'acme', '--product', 'c', '--fast', '--plan', 'gold'])
    expect(args.positionals).toEqual(['acme'])
    expect(listOf(args, 'product')).toEqual(['a', 'b', 'c'])
    expect(flagOf(args, 'plan')).toBe('gold')
    expect(args.flags.has('fast')).toBe(true)
    expect(flagOf(parsed(['acme', '--plan=']), 'plan')).toBe('')
    expect(listOf(parsed(['acme', '--product', '']), 'product')).toEqual([])
    expect(listOf(args, 'kind')).toBe(undefined)
  })

  test('take several values, also more than once, one of them inline', () => {
    const args = parsed(['acme', '--pair', '-', 'b', '--fast', '--pair=c', 'd'])
    expect(groupsOf(args, 'pair', 2)).toEqual([
      ['-', 'b'],
      ['c', 'd'],
    ])
    expect(groupsOf(args, 'plan', 2)).toEqual([])
  })

  test('have short names, and some may lack their value', () => {
    const args = parsed(['-w', '-f', 'acme'])
    expect([flagOf(args, 'warp'), flagOf(args, 'fast')]).toEqual(['', 'true'])
    expect(flagOf(parsed(['acme', '--warp', '7']), 'warp')).toBe('7')
    expect(flagOf(parsed(['acme', '-w=8']), 'warp')).toBe('8')
  })

  test('are shown in help with all their values', () => {
    expect(helpOf(verb)).toContain('  --pair <from> <to> ')
    expect(helpOf(verb)).toContain('  -w, --warp [slot] ')
  })

  test('end at two dashes', () => {
    expect(parsed(['--fast', '--', '--label']).positionals).toEqual(['--label'])
  })

  test.each([
    ['an unknown flag', ['a', '--prodct', 'x'], 'the nearest is --product'],
    ['a flag that is like no other', ['a', '--frobnicate'], /no flag --frobnicate$/],
    ['a flag given twice', ['a', '--plan', 'x', '--plan', 'y'], '--plan is given twice'],
    ['a missing value', ['a', '--plan'], '--plan needs a value'],
    ['a flag in the place of a value', ['a', '--plan', '--fast'], '--plan needs a value'],
    ['a value for a switch', ['a', '--fast=1'], '--fast takes no value'],
    ['a value outside its set', ['a', '--kind', 'z'], '--kind must be one of x, y'],
    ['a number out of its range', ['a', '--times', '10'], '--times must be an integer, 1 to 9'],
    ['a fraction', ['a', '--times', '1.5'], '--times must be an integer, 1 to 9'],
    ['a missing word', [], '<label> is missing: Its name.'],
    ['a word too many', ['a', 'b', 'c'], 'unexpected "c"'],
    ['an empty word', [''], '<label> is empty'],
    ['a key of the configuration', ['a', '--tls.cert', 'x'], 'is a configuration key'],
    ['an unknown short flag', ['a', '-x'], 'has no flag --x'],
    ['a value of several missing', ['a', '--pair', 'x'], '--pair needs 2 values, such as --pair'],
    ['a flag among several values', ['a', '--pair', 'x', '--fast'], '--pair needs 2 values'],
    ['a value out of range that may be missing', ['a', '-w', '100'], '--warp must be an integer'],
    ['a flag of a similar tool', ['a', '--gossip', 'x'], 'no --gossip: nobody gossips here'],
    ['a bad output form', ['a', '--output', 'xml'], 'must be one of table, json'],
  ])('%s is refused with a sentence', (_, words, sentence) => {
    if (sentence instanceof RegExp) expect(refused(words)).toMatch(sentence)
    else expect(refused(words)).toContain(sentence)
  })

  test('keys of the configuration go to serve, switches without a value', () => {
    const args = parsed(['--allowPlaintext', '--tls.cert', 'a.pem', '--data', 'd'], serving)
    expect(args.configFlags).toEqual([
      { key: 'allowPlaintext', value: 'true' },
      { key: 'tls.cert', value: 'a.pem' },
      { key: 'data', value: 'd' },
    ])
    expect(parsed(['--allow-plaintext=false'], serving).configFlags[0]?.value).toBe('false')
  })

  test('help needs none of the rest', () => {
    expect(parsed(['--help']).flags.has('help')).toBe(true)
    expect(parsed(['-h']).flags.has('help')).toBe(true)
  })
})

describe('verbs', () => {
  test('are found by their words', () => {
    const outcome = chooseVerb(verbs, ['subscription', 'add', 'acme', '--plan', 'x'])
    expect(outcome.ok && outcome.value.rest).toEqual(['acme', '--plan', 'x'])
  })

  test.each([
    [['sub', 'list'], 'subscription list'],
    [['subscription', 'ad', 'acme'], 'subscription add'],
    [['stat'], 'status'],
    [['shreds', 'lis', '20010'], 'shreds listen'],
    [['shreds'], 'shreds'],
  ])('%j is found by a prefix that only one has', (words, found) => {
    const outcome = chooseVerb(verbs, words)
    expect(outcome.ok && outcome.value.verb.words.join(' ')).toBe(found)
  })

  test.each([
    [['subscripton', 'add'], 'the nearest is "subscription"'],
    [['subscription', 'lits'], 'the nearest is "subscription list"'],
    [['subscription'], 'needs one of: add, set, list'],
    [['s'], '"s" is short for several commands: serve, subscription'],
    [['subscription', 's'], 'several commands: set, show, suspend'],
    [['log'], 'unknown command "log"'],
    [['frobnicate'], 'unknown command "frobnicate"'],
    [['--data', 'x'], 'a command is missing'],
  ])('%j is refused, with the nearest where one is near', (words, sentence) => {
    const outcome = chooseVerb(verbs, words)
    const message = outcome.ok ? '' : outcome.refusal.message
    expect(message).toContain(sentence)
    if (!sentence.includes('nearest')) expect(message).not.toContain('nearest')
    expect(!outcome.ok && exitOf(outcome.refusal)).toBe(2)
  })

  test.each([
    [
      ['--data', 'd', 'status', '--watch'],
      ['--data', 'd'],
    ],
    [
      ['--data=d', '--output', 'json', 'usage', 'acme'],
      ['--data=d', '--output', 'json'],
    ],
    [
      ['--count', '3', 'tail', 'tps'],
      ['--count', '3'],
    ],
    [
      ['--rpc.port', '0', '--allowPlaintext', 'serve'],
      ['--rpc.port', '0', '--allowPlaintext'],
    ],
    [['--yes', 'token', 'rotate'], ['--yes']],
    [['-V'], ['-V']],
    [['status', '--data', 'd'], []],
    [['-', 'x'], []],
  ])('%j has these flags before the verb', (argv, leading) => {
    const split = splitLeading(verbs, argv)
    expect(split.leading).toEqual(leading)
    expect([...split.leading, ...split.rest]).toEqual(argv)
  })

  test('an address without its flag is answered with the flag', () => {
    const load = verbs.find(({ words }) => words.join(' ') === 'bench load')!
    const parsed = parseArgs(load, ['http://127.0.0.1:8899'])
    expect(parsed).toMatchObject({
      refusal: {
        message:
          'unexpected "http://127.0.0.1:8899"; ' +
          'name an endpoint as --to <kind>=http://127.0.0.1:8899',
      },
    })
  })

  test('no two verbs share their words, and each has a summary', () => {
    const words = verbs.map((one) => one.words.join(' '))
    expect(new Set(words).size).toBe(words.length)
    for (const one of verbs) expect(one.summary).toMatch(/\.$/)
  })
})
