// `sluice completion bash|zsh|fish`: prints a script that completes verbs and flags. Thread: main.
// Generated from the declarations; the scripts never run the command, so completion is instant.
import { accept } from '../base/errors.ts'
import { configFields } from '../config/config.ts'
import { leaves } from '../config/tree.ts'
import { commonFlags, type FlagSpec, flagsOf, misuse, type Verb } from './verb.ts'

const COMPLETION = 'completion'
const shells = ['bash', 'zsh', 'fish'] as const

/** The verb; `all` returns the table of verbs, which includes this one. */
export function completionVerb(all: () => readonly Verb[]): Verb {
  return {
    words: [COMPLETION],
    summary: 'Print the completion script of a shell: bash, zsh or fish.',
    positionals: [{ name: 'shell', doc: 'One of bash, zsh, fish.' }],
    needsNoConfig: true,
    async run({ positionals: [shell = ''] }) {
      if (shell === 'bash') return accept(reportOf(bashScript(all())))
      if (shell === 'zsh') return accept(reportOf(zshScript(all())))
      if (shell === 'fish') return accept(reportOf(fishScript(all())))
      return misuse(`<shell> must be one of ${shells.join(', ')}`)
    },
  }
}

function reportOf(script: string) {
  return { json: { script }, text: script }
}

export function bashScript(all: readonly Verb[]): string {
  return `# bash completion of sluice. Use: source <(sluice completion bash)
_sluice() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]}
  local offered=""
  case "$prev" in
    --data|--config) COMPREPLY=( $(compgen -f -- "$cur") ); return ;;
${optionCases(all, (name, options) => `    --${name}) offered="${options}" ;;`)}
  esac
  if [ -z "$offered" ]; then
    if [ "$COMP_CWORD" -eq 1 ]; then
      offered="${families(all).join(' ')}"
    else
      case "\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in
${verbCases(all, (pattern, words) => `        ${pattern}) offered="${words}" ;;`)}
      esac
    fi
  fi
  COMPREPLY=( $(compgen -W "$offered" -- "$cur") )
}
complete -F _sluice sluice`
}

export function zshScript(all: readonly Verb[]): string {
  return `#compdef sluice
# zsh completion of sluice. Use: sluice completion zsh > "\${fpath[1]}/_sluice"
_sluice() {
  case "$words[CURRENT-1]" in
    --data|--config) _files; return ;;
${optionCases(all, (name, options) => `    --${name}) compadd -- ${options}; return ;;`)}
  esac
  if (( CURRENT == 2 )); then
    compadd -- ${families(all).join(' ')}
    return
  fi
  case "$words[2] $words[3]" in
${verbCases(all, (pattern, words) => `    ${pattern}) compadd -- ${words} ;;`)}
  esac
}
# Loaded from fpath, this file is the function itself; sourced, it must be registered.
if [ "$funcstack[1]" = _sluice ]; then _sluice "$@"; else compdef _sluice sluice; fi`
}

export function fishScript(all: readonly Verb[]): string {
  const lines = ['# fish completion of sluice. Use: sluice completion fish | source']
  lines.push('complete -c sluice -f')
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
    for (const flag of flagsOf(verb))
      lines.push(`complete -c sluice -n '${both}' ${fishFlag(flag)}`)
    for (const key of plainKeys(verb)) lines.push(`complete -c sluice -n '${both}' -l ${key} -r`)
  }
  return lines.join('\n')
}

function fishFlag(flag: FlagSpec): string {
  const isPath = flag.name === 'data' || flag.name === 'config'
  const value = flag.value === undefined ? '' : isPath ? ' -r -F' : ' -x'
  const options = flag.options === undefined ? '' : ` -a ${quoted(flag.options.join(' '))}`
  const short = flag.short === undefined ? '' : `-s ${flag.short} `
  return `${short}-l ${flag.name}${value}${options} -d ${quoted(flag.doc)}`
}

function families(all: readonly Verb[]): string[] {
  return [...new Set(all.map((verb) => verb.words[0]!))]
}

/** One case per verb with its flags, then one per family with its second words. */
function verbCases(all: readonly Verb[], line: (pattern: string, words: string) => string): string {
  const withTwo = all.filter((verb) => verb.words.length === 2)
  return [
    ...withTwo.map((verb) => line(`"${verb.words.join(' ')}"`, flagWords(verb))),
    ...[...secondWords(all)].map(([family, words]) => line(`"${family} "*`, words.join(' '))),
    ...all
      .filter((verb) => verb.words.length === 1)
      .map((verb) => line(`"${verb.words[0]} "*`, `${argumentWords(verb)}${flagWords(verb)}`)),
  ].join('\n')
}

function argumentWords(verb: Verb): string {
  return verb.words[0] === COMPLETION ? `${shells.join(' ')} ` : ''
}

function flagWords(verb: Verb): string {
  const own = flagsOf(verb).map((flag) => `--${flag.name}`)
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

function optionCases(
  all: readonly Verb[],
  line: (name: string, options: string) => string,
): string {
  const flags = [...all.flatMap((verb) => verb.flags ?? []), ...commonFlags]
  const seen = new Map<string, Set<string>>()
  for (const { name, options = [] } of flags)
    if (options.length > 0) seen.set(name, new Set([...(seen.get(name) ?? []), ...options]))
  return [...seen].map(([name, options]) => line(name, [...options].join(' '))).join('\n')
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "\\'")}'`
}
