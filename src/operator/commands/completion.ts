// `sluice completion bash|zsh|fish`: prints a script that completes verbs, flags and words.
// Generated from the declarations; a script runs the command only for what it cannot
// know: `sluice completion labels` asks the registry, `completion contexts` the user's contexts.
import { accept, type Outcome } from '../../base/errors.ts'
import { configFields } from '../config/config.ts'
import { leaves, loadConfig } from '../config/load.ts'
import { contextNames } from './credentials.ts'
import { withStore } from './registry.ts'
import {
  type Call,
  commonFlags,
  type FlagSpec,
  misuse,
  type PositionalSpec,
  type Report,
  shownFlagsOf,
  type Verb,
} from './verb.ts'

const shells = ['bash', 'zsh', 'fish'] as const

/** The verb; `all` loads the table of verbs, which includes this one. */
export function completionVerb(all: () => Promise<readonly Verb[]>): Verb {
  return {
    words: ['completion'],
    summary: 'Print the completion script of a shell: bash, zsh or fish.',
    examples: ['completion bash >> ~/.bashrc', 'completion fish | source'],
    positionals: [{ name: 'shell', doc: `One of ${shells.join(', ')}.`, options: shells }],
    needsNoConfig: true,
    async run(call) {
      const [shell = ''] = call.positionals
      if (shell === 'bash') return accept(reportOf(bashScript(await all())))
      if (shell === 'zsh') return accept(reportOf(zshScript(await all())))
      if (shell === 'fish') return accept(reportOf(fishScript(await all())))
      if (shell === 'contexts') return accept(reportOf(contextNames().join('\n')))
      if (shell === 'labels') return labels(call)
      return misuse(`<shell> must be one of ${shells.join(', ')}`)
    },
  }
}

/** The labels of the registry, one a line. */
async function labels(call: Call): Promise<Outcome<Report>> {
  const loaded = await loadConfig(call.request)
  if (!loaded.ok) return accept(reportOf(''))
  return withStore({ ...call, loaded }, (store) => {
    const names = store.list().flatMap(({ label, state }) => (state === 'ended' ? [] : [label]))
    return accept(reportOf(names.join('\n')))
  })
}

function reportOf(script: string): Report {
  return { json: { script }, text: script }
}

type Words = NonNullable<PositionalSpec['words']>

export function bashScript(all: readonly Verb[]): string {
  const ask = (words: Words) => `$(_sluice_ask ${words})`
  return `# bash completion of sluice. Use: source <(npx --no -- sluice completion bash)
_sluice_ask() {
  local at data=()
  for (( at = 1; at < \${#words[@]}; at++ )); do
    [ "\${words[at]}" = --data ] && data=(--data "\${words[at+1]}")
  done
  "\${run[@]}" completion "$1" "\${data[@]}" 2>/dev/null
}
_sluice() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]}
  local words=("\${COMP_WORDS[@]}") run=("\${COMP_WORDS[0]}") at=$COMP_CWORD skip=1
  local offered=""
  if [ "\${words[0]##*/}" = npx ]; then
    while [[ "\${words[skip]}" == -* ]]; do (( skip++ )); done
    if [ "\${words[skip]}" != sluice ] || (( at <= skip )); then return; fi
    run=("\${words[@]:0:skip+1}"); words=("\${words[@]:skip}"); (( at -= skip ))
  fi
  case "$prev" in
    --data|--config|--credentials|--token-file|--password-file|--ca)
      COMPREPLY=( $(compgen -f -- "$cur") ); return ;;
${flagCases(all, ask, (name, options) => `    --${name}) offered="${options}" ;;`)}
  esac
  if [ -z "$offered" ]; then
    if [ "$at" -eq 1 ]; then
      offered="${families(all).join(' ')}"
    else
      case "\${words[1]} \${words[2]}" in
${verbCases(all, ask, (pattern, offered) => `        ${pattern}) offered="${offered}" ;;`)}
      esac
    fi
  fi
  COMPREPLY=( $(compgen -W "$offered" -- "$cur") )
}
complete -F _sluice sluice
complete -p npx >/dev/null 2>&1 || complete -o default -F _sluice npx`
}

export function zshScript(all: readonly Verb[]): string {
  const ask = (words: Words) => `\${(f)"$(_sluice_ask ${words})"}`
  return `#compdef sluice npx
# zsh completion of sluice. Use: npx --no -- sluice completion zsh > "\${fpath[1]}/_sluice"
_sluice_ask() {
  local -a data
  local at=\${given[(i)--data]}
  (( at < $#given )) && data=(--data "$given[at+1]")
  "\${(@)run}" completion "$1" "\${(@)data}" 2>/dev/null
}
_sluice() {
  local -a given run
  local at=$CURRENT skip=2
  given=("\${(@)words}")
  run=("$given[1]")
  if [[ "\${given[1]:t}" == npx ]]; then
    while [[ "$given[skip]" == -* ]]; do (( skip++ )); done
    if [[ "$given[skip]" != sluice ]] || (( at <= skip )); then _default; return; fi
    run=("\${(@)given[1,skip]}"); given=("\${(@)given[skip,-1]}"); (( at -= skip - 1 ))
  fi
  case "$given[at-1]" in
    --data|--config|--credentials|--token-file|--password-file|--ca) _files; return ;;
${flagCases(all, ask, (name, options) => `    --${name}) compadd -- ${options}; return ;;`)}
  esac
  if (( at == 2 )); then
    compadd -- ${families(all).join(' ')}
    return
  fi
  case "$given[2] $given[3]" in
${verbCases(all, ask, (pattern, words) => `    ${pattern}) compadd -- ${words} ;;`)}
  esac
}
# Loaded from fpath, this file is the function itself; sourced, it must be registered.
if [ "$funcstack[1]" = _sluice ]; then _sluice "$@"; else compdef _sluice sluice npx; fi`
}

export function fishScript(all: readonly Verb[]): string {
  const lines = [
    '# fish completion of sluice. Use: npx --no -- sluice completion fish | source',
    'function __sluice_ask',
    '  if command -q sluice; sluice completion $argv[1] 2>/dev/null',
    '  else; npx --no -- sluice completion $argv[1] 2>/dev/null; end',
    'end',
    'complete -c sluice -f',
    // After `npx --no -- sluice` the rest is completed as that of `sluice`.
    "complete -c npx -n '__fish_seen_subcommand_from sluice' -f " +
      '-a \'(complete -C (string replace -r "^.*? sluice" sluice -- (commandline -cp)))\'',
  ]
  for (const family of families(all)) {
    const only = all.find((verb) => verb.words.length === 1 && verb.words[0] === family)
    const about = only === undefined ? '' : ` -d ${quoted(only.summary)}`
    lines.push(`complete -c sluice -n __fish_use_subcommand -a ${family}${about}`)
  }
  const second = secondWords(all)
  for (const verb of all) {
    const [first = '', word] = verb.words
    const seen = `__fish_seen_subcommand_from ${first}`
    const open = `${seen}; and not __fish_seen_subcommand_from ${second.get(first)?.join(' ')}`
    if (word !== undefined)
      lines.push(`complete -c sluice -n '${open}' -a ${word} -d ${quoted(verb.summary)}`)
    const both = word === undefined ? seen : `${seen}; and __fish_seen_subcommand_from ${word}`
    const words = argumentWords(verb, (asked) => `(__sluice_ask ${asked})`)
    if (words !== '') lines.push(`complete -c sluice -n '${both}' -a ${quoted(words)}`)
    for (const flag of shownFlagsOf(verb))
      lines.push(`complete -c sluice -n '${both}' ${fishFlag(flag)}`)
    for (const key of plainKeys(verb)) lines.push(`complete -c sluice -n '${both}' -l ${key} -r`)
  }
  return lines.join('\n')
}

function fishFlag(flag: FlagSpec): string {
  const isPath = typeof flag.value === 'string' && /^(file|folder)$/.test(flag.value)
  const value = flag.value === undefined ? '' : isPath ? ' -r -F' : ' -x'
  const words = optionWords(flag, (asked) => `(__sluice_ask ${asked})`)
  const options = words === '' ? '' : ` -a ${quoted(words)}`
  const short = flag.short === undefined ? '' : `-s ${flag.short} `
  return `${short}-l ${flag.name}${value}${options} -d ${quoted(flag.doc)}`
}

function families(all: readonly Verb[]): string[] {
  return [...new Set(all.map((verb) => verb.words[0]!))]
}

/** One case per verb with its words and flags, then one per family with its second words. */
function verbCases(
  all: readonly Verb[],
  ask: (words: Words) => string,
  line: (pattern: string, words: string) => string,
): string {
  const wordsOf = (verb: Verb) => `${argumentWords(verb, ask)} ${flagWords(verb)}`.trim()
  const second = secondWords(all)
  const withTwo = all.filter((verb) => verb.words.length === 2)
  const single = all.filter((verb) => verb.words.length === 1 && !second.has(verb.words[0]!))
  return [
    ...withTwo.map((verb) => line(`"${verb.words.join(' ')}"`, wordsOf(verb))),
    ...[...second].map(([family, words]) => {
      // Such a family may have a verb of one word, too.
      const own = all.find((verb) => verb.words.length === 1 && verb.words[0] === family)
      return line(`"${family} "*`, [...words, ...(own ? [wordsOf(own)] : [])].join(' '))
    }),
    ...single.map((verb) => line(`"${verb.words[0]} "*`, wordsOf(verb))),
  ].join('\n')
}

function argumentWords(verb: Verb, ask: (words: Words) => string): string {
  const words = (verb.positionals ?? []).map((spec) => optionWords(spec, ask))
  return words.filter((text) => text !== '').join(' ')
}

/** The words that a flag or a positional may be; '' where they are not known. */
function optionWords(
  { options = [], words }: Pick<PositionalSpec, 'options' | 'words'>,
  ask: (words: Words) => string,
): string {
  return words === undefined ? options.join(' ') : ask(words)
}

function flagWords(verb: Verb): string {
  const own = shownFlagsOf(verb).map((flag) => `--${flag.name}`)
  return [...own, ...plainKeys(verb).map((key) => `--${key}`)].join(' ')
}

/** Configuration keys that the verb takes and whose names are fixed. */
function plainKeys(verb: Verb): string[] {
  if (verb.takesConfig !== true) return []
  const common = new Set(commonFlags.map((flag) => flag.name))
  const keys = [...leaves(configFields)].map((leaf) => leaf.key)
  return keys.filter((key) => !key.includes('<') && !common.has(key))
}

function secondWords(all: readonly Verb[]): Map<string, string[]> {
  const second = new Map<string, string[]>()
  for (const { words } of all) {
    const [family = '', word] = words
    if (word !== undefined) second.set(family, [...(second.get(family) ?? []), word])
  }
  return second
}

/** One case per flag whose values are known, of all verbs that have it. */
function flagCases(
  all: readonly Verb[],
  ask: (words: Words) => string,
  line: (name: string, options: string) => string,
): string {
  const flags = [...all.flatMap((verb) => verb.flags ?? []), ...commonFlags]
  const seen = new Map<string, Set<string>>()
  for (const flag of flags) {
    const words = optionWords(flag, ask)
    if (words === '') continue
    const parts = flag.words === undefined ? words.split(' ') : [words]
    seen.set(flag.name, new Set([...(seen.get(flag.name) ?? []), ...parts]))
  }
  return [...seen].map(([name, options]) => line(name, [...options].join(' '))).join('\n')
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "\\'")}'`
}
