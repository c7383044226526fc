import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { group, integer, many, named, numbers, text } from '../../../../src/base/fields.ts'
import { configFields } from '../../../../src/operator/config/config.ts'
import {
  configHelp,
  docsOfKey,
  renderConfig,
  renderConfigDocs,
  visibleConfig,
} from '../../../../src/operator/config/docs.ts'
import { fieldOfFlag, leaves, loadConfig } from '../../../../src/operator/config/load.ts'
import { variableOf } from '../../../testkit/config-variable.ts'

const rate = integer({ initial: 7, min: 1, max: 9, unit: 'calls', doc: 'How a|many.' })
const node = group('A node.', { xToken: text({ initial: '', doc: 'Its token.', secret: true }) })
const fields = {
  weights: numbers({ initial: { a: 1 }, min: 0, max: 9, doc: 'Weights.' }),
  plans: named('Plans.', 'plan', group('A plan.', { rate }), { gold: { rate: 9 } }),
  nodes: many('Nodes.', node),
}

describe('documents made from the declarations', () => {
  test('variables separate the words of a key', () => {
    expect(variableOf('rpc.bodyBytesMax')).toBe('SLUICE_RPC__BODY_BYTES_MAX')
    expect(variableOf('plans.<plan>.rate')).toBe('SLUICE_PLANS__<PLAN>__RATE')
  })

  test('every declared key is in CONFIG.md and in the help', () => {
    const page = renderConfigDocs(configFields)
    const help = configHelp(configFields).flatMap(({ rows }) => rows.map(({ key }) => key))
    for (const { key } of leaves(configFields)) {
      expect(page).toContain(`| \`${key}\` |`)
      expect(help).toContain(key)
    }
  })

  test('one key is documented with its bounds, default and variable', () => {
    expect(docsOfKey(configFields, 'rpc.port')).toMatchObject([
      { key: 'rpc.port', default: '8899', variable: variableOf('rpc.port') },
    ])
    expect(docsOfKey(configFields, 'tls').map(({ key }) => key)).toEqual(['tls.cert', 'tls.key'])
    const named = docsOfKey(configFields, 'plans.gold').map(({ key }) => key)
    expect(named.length).toBeGreaterThan(1)
    for (const key of named) expect(key).toMatch(/^plans\.<\w+>\./)
    expect(docsOfKey(configFields, 'rpc.prot')).toEqual([])
  })

  test('every key without a placeholder can be set by its variable and its flag', async () => {
    for (const { key, field } of leaves(configFields)) {
      if (key.includes('<')) continue
      expect(fieldOfFlag(key), key).toBe(field)
      const result = await loadConfig({ env: { [variableOf(key)]: '?' } })
      const problems = result.ok ? [] : result.problems
      expect(problems.filter((problem) => problem.includes('unknown key'))).toEqual([])
    }
  })

  test('bounds, units, built-in names and escaping', () => {
    const page = renderConfigDocs(fields)
    expect(page).toContain(
      '| `plans.<plan>.rate` | `7` | `9` | integer, 1 to 9, calls | How a\\|many. |',
    )
    expect(page).toContain('Built in: `gold`.')
    expect(page).toContain('| `nodes.<n>.xToken` | (secret) |')
  })
})

describe('the configuration in force', () => {
  const config = {
    weights: { a: 2 },
    plans: { gold: { rate: 3 } },
    nodes: [{ xToken: 'hush' }, { xToken: '' }],
  }
  const origins = new Map([
    ['plans.gold.rate', 'SLUICE_PLANS__GOLD__RATE'],
    ['nodes.0.xToken', 'a.yaml'],
  ])
  // Reason for the casts: the printer is tried on declarations of its own.
  const loaded = { config: config as never, origins }

  test('is YAML with the source of each value, and hides secrets', () => {
    const printed = renderConfig(loaded, fields)
    expect(printed).not.toContain('hush')
    expect(printed).toContain('    rate: 3  # SLUICE_PLANS__GOLD__RATE')
    expect(parse(printed)).toEqual(visibleConfig(config as never, fields))
    expect(parse(printed).nodes).toEqual([{ xToken: '(set)' }, { xToken: '' }])
  })

  test('the defaults print as a file that loads again', async () => {
    const result = await loadConfig({ env: {} })
    if (!result.ok) throw new Error(result.problems.join())
    const printed = renderConfig(result)
    expect(printed).toContain('unsentBytes: "16MiB"')
    const folder = mkdtempSync(join(tmpdir(), 'sluice-config-'))
    try {
      const path = join(folder, 'printed.yaml')
      writeFileSync(path, printed)
      const again = await loadConfig({ env: {}, file: path })
      if (!again.ok) throw new Error(again.problems.join())
      expect(again.config).toEqual(result.config)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
