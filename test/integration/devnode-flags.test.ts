// Mistakes in the flags of `sluice devnode`: each is one sentence, and none leaves a chain.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Keypair } from '@solana/web3.js'
import { afterAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { solanaFeed } from '../../src/devnode/node.ts'
import { StatsCounter } from '../../src/devnode/reports.ts'
import { startEmbeddedChain } from '../../src/devnode/start.ts'
import { parseArgs } from '../../src/operator/commands/args.ts'
import { devnodeVerb, genesisOf } from '../../src/operator/commands/devnode.ts'
import { EXIT, exitOf, type ParsedArgs } from '../../src/operator/commands/verb.ts'
import { loadConfig } from '../../src/operator/config/load.ts'
import { quickSection } from '../testkit/chain-stage.ts'
import { FakeNode } from '../testkit/fake-node.ts'
import { freePort } from '../testkit/free-port.ts'

const memo = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr'
const system = '11111111111111111111111111111111'
const folder = mkdtempSync(join(tmpdir(), 'sluice-genesis-'))
const path = join(folder, 'chain')
const address = () => Keypair.generate().publicKey.toBase58()
writeFileSync(join(folder, 'text'), 'no json')
writeFileSync(join(folder, 'bare'), `{"pubkey":"${address()}","account":{}}`)
writeFileSync(join(folder, 'elf'), `\x7fELF${'x'.repeat(500)}`)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function callOf({ positionals, flags }: ParsedArgs) {
  const loaded = await loadConfig({ env: {} })
  if (!loaded.ok) throw new Error(loaded.problems.join())
  return { positionals, flags, loaded, request: {} }
}

/** Starts the chain with the first block that the flags describe. */
async function startChain(flags: readonly string[]): Promise<void> {
  const parsed = parseArgs(devnodeVerb, flags)
  if (!parsed.ok) throw new Error(parsed.refusal.message)
  const genesis = genesisOf(await callOf(parsed.value))
  if (!genesis.ok) throw new Error(genesis.refusal.message)
  const running = await startEmbeddedChain(quickSection, {
    path,
    isFresh: false,
    release: '0.2.0',
    genesis: genesis.value,
    sink: solanaFeed(() => {}, systemClock),
    counters: new StatsCounter(),
    clock: systemClock,
    log: silentLog,
  })
  await running.stop()
}

async function expectRefused(flags: readonly string[], sentence: string): Promise<void> {
  const start = startChain(flags)
  const message = expect.stringMatching(/^[^\n]+$/)
  await expect(start).rejects.toMatchObject({ kind: 'genesis-input', message })
  await expect(start).rejects.toThrow(sentence)
  expect(existsSync(path)).toBe(false)
}

describe('a mistake', () => {
  it.each([
    [
      'a missing file',
      ['--account', '-', '/no/file.json'],
      '--account: the file /no/file.json does',
    ],
    ['a missing folder', ['--account-dir', '/no/dir'], '--account-dir: the folder /no/dir cannot'],
    ['no JSON', ['--account', '-', '@text'], 'text is not JSON'],
    ['an account without owner', ['--account', '-', '@bare'], 'bare has no address in "owner"'],
    ['a bad address', ['--account', 'l0l', '@text'], '--account: "l0l" is not an address'],
    ['no ELF', ['--bpf-program', memo, '@text'], 'is not a program (an ELF file)'],
    ['a broken ELF', ['--bpf-program', memo, '@elf'], 'cannot be loaded'],
    [
      'no key pair',
      ['--bpf-program', '@text', '@elf'],
      'is neither an address in base58 nor a key',
    ],
    ['a bad authority', ['--upgradeable-program', memo, '@elf', 'x'], '"x" is neither'],
    ['a bad mint', ['--mint', 'x'], '--mint: "x" is neither'],
  ])('%s ends the start with one sentence and leaves no chain', async (_, flags, sentence) => {
    await expectRefused(
      flags.map((flag) => flag.replace('@', `${folder}/`)),
      sentence,
    )
  })

  it.each([
    ['an account that it lacks', ['--clone', address()], 'does not exist'],
    ['no address', ['--clone', 'l0l'], '--clone: "l0l" is not an address in base58'],
    ['no program', ['--clone-upgradeable-program', memo], 'is not an upgradeable program'],
  ])('another node cannot lend %s', async (_, flags, sentence) => {
    const node = new FakeNode()
    const shown = { lamports: 1, data: ['', 'base64'], owner: system, executable: true }
    node.answers.set('getMultipleAccounts', ([keys]) => ({
      context: { slot: 1 },
      value: (keys as string[]).map((key) => (key === memo ? { ...shown, rentEpoch: 0 } : null)),
    }))
    await node.listen()
    await expectRefused(['--url', node.url, ...flags], sentence)
    await node.kill()
  })

  it('another node must be reached', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const sentence = `--url: ${url} cannot be reached: connect ECONNREFUSED`
    await expectRefused(['--url', url, '--clone', address()], sentence)
  })

  it.each([
    ['--clone without --url', ['--clone', system], '--clone needs --url'],
    ['one value of two', ['--account', 'a'], '--account needs 2 values, such as --account'],
    ['an unknown version of agave', ['--agave=4.9'], '--agave must be one of 4.0, 4.1, 4.2, 4.3'],
    ['two slot times', ['--slot-ms=40', '--ticks-per-slot=8'], 'give one of them'],
    ['a public address', ['--bind-address', '0.0.0.0'], 'must be a loopback address'],
    ['an amount', ['--faucet-sol', 'much'], '--faucet-sol must be an amount of SOL'],
    ['a flag it lacks', ['--gossip-port', '1'], 'has no --gossip-port: it has no gossip'],
    ['a geyser plugin', ['--geyser-plugin-config', 'x'], 'it serves geyser itself'],
  ])('%s is a usage error', async (_, flags, sentence) => {
    const parsed = parseArgs(devnodeVerb, flags)
    const outcome = parsed.ok ? await devnodeVerb.run(await callOf(parsed.value)) : parsed
    if (outcome.ok) throw new Error('it ran')
    expect(exitOf(outcome.refusal)).toBe(EXIT.usage)
    expect(outcome.refusal.message).toContain(sentence)
  })
})
