// The shapes of what the command prints with --output json, in golden files: scripts of
// operators read them, so inside v1 fields are only added.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { expectShape } from '../testkit/golden.ts'
import { runHere } from '../testkit/run-here.ts'

const data = mkdtempSync(join(tmpdir(), 'sluice-golden-'))
afterAll(() => rmSync(data, { recursive: true }))

/** Output of a command: stdout when it succeeds, stderr when it refuses. */
async function say(words: string): Promise<{ code: number | null; json: unknown }> {
  const form = ['--data', data, '--output', 'json', '--yes']
  const { code, stdout, stderr } = await runHere(...words.split(' '), ...form)
  return { code, json: JSON.parse(stdout + stderr) }
}

async function holds(golden: string, words: string, code = 0): Promise<void> {
  const said = await say(words)
  expect({ words, code: said.code }).toEqual({ words, code })
  expectShape(`command/${golden}`, said.json)
}

describe('golden shapes of the command', () => {
  it('match what provisioning prints', async () => {
    const products = 'bundle,indexer,shredstream'
    await holds('subscription-add', `subscription add acme --product ${products}`)
    await holds('subscription', 'subscription set acme --cidr 127.0.0.0/8')
    await holds('subscription', 'subscription show acme')
    await holds('subscription-list', 'subscription list')
    await holds('subscription', 'subscription suspend acme')
    await holds('subscription', 'subscription resume acme')
    await holds('token-rotate', 'token rotate acme --grace 1h')
    await holds('indexer-rotate', 'indexer rotate acme')
    await holds('note-add', 'note add acme paid --kind other')
  })

  it('match what the verbs of a destination print', async () => {
    await holds('destination', 'destination set acme 127.0.0.1:20010')
    await holds('destination', 'destination confirm acme --reason seen')
    await holds('destination', 'destination pause acme')
    await holds('destination', 'destination resume acme')
    await holds('destination', 'destination show acme')
    await holds('destination-cleared', 'destination clear acme')
  })

  it('match what the read-only verbs print', async () => {
    await holds('usage', 'usage acme')
    await holds('usage-all', 'usage')
    await holds('usage-month', `usage --month ${new Date().toISOString().slice(0, 7)}`)
    await holds('audit-show', 'audit show acme')
    await holds('audit-verify', 'audit verify')
    await holds('products', 'products')
    await holds('config-check', 'config check')
    await holds('config-print', 'config print')
    await holds('subscription', 'subscription end acme')
  })

  it('match refusals, usage errors, and what is not found', async () => {
    await holds('error', 'subscription add other --product nothing', 1)
    await holds('error', 'subscription frobnicate', 2)
    await holds('error', 'subscription show nobody', 3)
    await holds('status-stopped', 'status', 1)
  })
})
