// `sluice config ...`: checks, prints and documents the configuration without starting.
import { access, constants, readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { configFields, setsWithoutGeyser } from '../config/config.ts'
import { docsOfKey, renderConfig, renderConfigDocs, visibleConfig } from '../config/docs.ts'
import { type Loaded, loadConfig, unknownKey } from '../config/load.ts'
import { recordOf, tableOf } from './output.ts'
import type { Report, Verb } from './verb.ts'

export const configVerbs: readonly Verb[] = [
  {
    words: ['config', 'check'],
    summary: 'Check file, environment and flags without starting; exit 1 on problems.',
    examples: ['config check --config sluice.yaml'],
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
    examples: ['config print --config sluice.yaml'],
    takesConfig: true,
    run: async ({ loaded }) =>
      accept({
        json: { config: visibleConfig(loaded.config), origins: Object.fromEntries(loaded.origins) },
        text: renderConfig(loaded),
      }),
  },
  {
    words: ['config', 'docs'],
    summary: 'Print the documentation of a key or a section, or of every key (docs/CONFIG.md).',
    examples: ['config docs rpc.port', 'config docs tls', 'config docs'],
    positionals: [{ name: 'key', doc: 'A key or a section [every key].', optional: true }],
    needsNoConfig: true,
    async run({ positionals: [name] }) {
      if (name !== undefined) return keyReport(name)
      const page = renderConfigDocs(configFields)
      return accept({ json: { markdown: page }, text: page.trimEnd() })
    },
  },
]

function keyReport(name: string): Outcome<Report> {
  const keys = docsOfKey(configFields, name)
  if (keys.length === 0) return refuse('not-found', 'no-key', unknownKey(configFields, name))
  const [first] = keys
  const text =
    keys.length === 1 && first !== undefined
      ? `${first.key}: ${first.doc}\n\n${recordOf([
          ['takes', first.takes],
          ['default', first.default],
          ['flag', `--${first.key}`],
          ['environment', first.variable],
        ])}`
      : tableOf(
          ['key', 'default', 'takes', 'meaning'],
          keys.map((one) => [one.key, one.default, one.takes, one.doc]),
          '',
        )
  return accept({ json: { keys }, text })
}

async function unreadable({ config }: Loaded): Promise<string[]> {
  const problems: string[] = []
  for (const [key, path] of Object.entries(config.tls)) {
    if (path === '') continue
    await access(path, constants.R_OK).catch(() => {
      problems.push(`tls.${key}: cannot read ${path}`)
    })
  }
  if (problems.length > 0 || config.tls.cert === '') return problems
  try {
    createSecureContext({
      cert: await readFile(config.tls.cert),
      key: await readFile(config.tls.key),
    })
  } catch (error) {
    problems.push(`tls.cert and tls.key do not match: ${messageOf(error)}`)
  }
  return problems
}
