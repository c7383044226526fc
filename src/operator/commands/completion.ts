// `sluice completion bash|zsh|fish`: prints a script that completes verbs, flags and words.
// Generated from the declarations; a script runs the command only for what it cannot
// know: `sluice completion labels` asks the registry, `completion contexts` the user's contexts.
import { accept, type Outcome } from '../../base/errors.ts'
import { loadConfig } from '../config/load.ts'
import { bashScript, fishScript, zshScript } from './completion-scripts.ts'
import { contextNames } from './context-store.ts'
import { withStore } from './registry.ts'
import { type Call, misuse, type Report, type Verb } from './verb.ts'

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
