// Runs a command line: picks the verb, parses, loads the configuration, runs, prints, exit code.
import { isBug } from '../../base/assert.ts'
import { messageOf, type Refusal } from '../../base/errors.ts'
import { type Loaded, type LoadRequest, loadConfig } from '../config/load.ts'
import { parseArgs, splitLeading } from './args.ts'
import { chooseVerb, familyOf } from './choose-verb.ts'
import { helpOf, overview } from './help.ts'
import { type Form, printRefusal, printReport } from './output.ts'
import { EXIT, exitOf, flagOf, hasSwitch, type ParsedArgs, type Verb } from './verb.ts'
import { loadVerbGroups, loadVerbs, loadVerbsFor } from './verbs.ts'
import { packageVersion } from './version.ts'

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
    const outcome = await verb.run({ ...callOf(args, loaded), request })
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

function callOf(args: ParsedArgs, loaded: Loaded) {
  return { positionals: args.positionals, flags: args.flags, loaded }
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
