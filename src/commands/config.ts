// `sluice config ...`: checks, prints and documents the configuration without starting.
// Thread: main.
import { access, constants } from 'node:fs/promises'
import { accept } from '../base/errors.ts'
import { configFields, setsWithoutGeyser } from '../config/config.ts'
import { renderConfigDocs } from '../config/docs.ts'
import { type Loaded, loadConfig } from '../config/load.ts'
import { renderConfig, visibleConfig } from '../config/print.ts'
import type { Verb } from './verb.ts'

export const configVerbs: readonly Verb[] = [
  {
    words: ['config', 'check'],
    summary: 'Check file, environment and flags without starting; exit 1 on problems.',
    takesConfig: true,
    needsNoConfig: true,
    async run({ request }) {
      const result = await loadConfig(request)
      const problems = result.ok ? await unreadable(result) : result.problems
      const isGood = problems.length === 0
      const warnings = result.ok ? setsWithoutGeyser(result.config) : []
      const lines = isGood ? ['The configuration is valid.', ...warnings] : problems
      const json = { ok: isGood, problems, ...(warnings.length > 0 && { warnings }) }
      return accept({ json, text: lines.join('\n'), exit: isGood ? 0 : 1 })
    },
  },
  {
    words: ['config', 'print'],
    summary: 'Print the values in effect and where each was set; secrets are hidden.',
    takesConfig: true,
    run: async ({ loaded }) =>
      accept({
        json: { config: visibleConfig(loaded.config), origins: Object.fromEntries(loaded.origins) },
        text: renderConfig(loaded),
      }),
  },
  {
    words: ['config', 'docs'],
    summary: 'Print the documentation of every key (docs/CONFIG.md).',
    needsNoConfig: true,
    run: async () => {
      const page = renderConfigDocs(configFields)
      return accept({ json: { markdown: page }, text: page.trimEnd() })
    },
  },
]

async function unreadable({ config }: Loaded): Promise<string[]> {
  const problems: string[] = []
  for (const [key, path] of Object.entries(config.tls)) {
    if (path === '') continue
    await access(path, constants.R_OK).catch(() => {
      problems.push(`tls.${key}: cannot read ${path}`)
    })
  }
  return problems
}
