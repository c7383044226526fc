// Any input of an operator, a shell or a file: refused with a sentence, never thrown.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { chooseVerb, parseArgs } from '../../../../src/operator/commands/args.ts'
import { loadVerbs } from '../../../../src/operator/commands/dispatch.ts'
import { commonFlags } from '../../../../src/operator/commands/verb.ts'
import { configFields } from '../../../../src/operator/config/config.ts'
import { leaves, loadConfig } from '../../../../src/operator/config/load.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { variableOf } from '../../../testkit/config-variable.ts'

const verbs = await loadVerbs()
const runs = { numRuns: caseCount(40, 200) }

const folder = mkdtempSync(join(tmpdir(), 'sluice-fuzz-'))
afterAll(() => rmSync(folder, { recursive: true }))

const keys = [...leaves(configFields)].map((leaf) => leaf.key.replaceAll(/<\w+>/g, 'x'))
const flags = [...verbs.flatMap((verb) => verb.flags ?? []), ...commonFlags]
const words = fc.oneof(
  fc.string(),
  fc.constantFrom(...verbs.flatMap((verb) => verb.words)),
  fc.constantFrom(...flags.map((flag) => `--${flag.name}`)),
  fc.constantFrom(...keys.map((key) => `--${key}`)),
  fc.constantFrom('--', '-', '-h', '--=', '--output=json', ''),
)
const settings = fc.dictionary(
  fc.oneof(
    fc.constantFrom(...keys.map(variableOf)),
    fc.string().map((text) => `SLUICE_${text}`),
  ),
  fc.string(),
)

describe('random input', () => {
  test('as words of the command', () => {
    fc.assert(
      fc.property(fc.array(words, { maxLength: 12 }), fc.constantFrom(...verbs), (argv, verb) => {
        for (const outcome of [chooseVerb(verbs, argv), parseArgs(verb, argv)])
          if (!outcome.ok) expect(outcome.refusal.message.length).toBeGreaterThan(5)
      }),
      runs,
    )
  })

  test('as environment and flags', async () => {
    const given = fc.array(
      fc.record({ key: fc.oneof(fc.constantFrom(...keys), fc.string()), value: fc.string() }),
    )
    await fc.assert(
      fc.asyncProperty(settings, given, async (env, flagged) => {
        const { SLUICE_CONFIG: _, ...safe } = env
        const result = await loadConfig({ env: safe, flags: flagged })
        if (!result.ok) expect(result.problems.length).toBeGreaterThan(0)
      }),
      runs,
    )
  })

  test('as a file, in YAML and as noise', async () => {
    const path = join(folder, 'fuzz.yaml')
    const tree = fc.dictionary(fc.constantFrom(...Object.keys(configFields), 'x'), fc.jsonValue())
    const bodies = fc.oneof(
      tree.map((value) => Buffer.from(JSON.stringify(value))),
      fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
      fc.string().map((text) => Buffer.from(text)),
    )
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        writeFileSync(path, body)
        const result = await loadConfig({ file: path, env: {} })
        if (!result.ok) expect(result.problems.length).toBeGreaterThan(0)
      }),
      runs,
    )
  })
})
