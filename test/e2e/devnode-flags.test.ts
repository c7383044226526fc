// The flags of solana-test-validator that `sluice devnode` takes: accounts and programs of files and
// of another node, in the first block.
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Keypair, PublicKey, TransactionInstruction } from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { type Devnode, devnodeWords, startDevnode } from '../testkit/devnode.ts'
import { SolanaNode, transfer } from '../testkit/solana-node.ts'

const run = promisify(execFile)
const memo = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
const loader = new PublicKey('BPFLoaderUpgradeab1e11111111111111111111111')
const system = '11111111111111111111111111111111'
const folder = mkdtempSync(join(tmpdir(), 'sluice-genesis-'))
const address = () => Keypair.generate().publicKey.toBase58()

function inFolder(name: string, content: string | Uint8Array): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

/** As `solana account --output json` writes it. */
function dump(pubkey: string, account: { lamports: number; data: string; owner?: string }): string {
  const { lamports, data, owner = system } = account
  return `{"pubkey":"${pubkey}","account":{"lamports":${lamports},"data":["${data}","base64"],
    "owner":"${owner}","executable":false,"rentEpoch":18446744073709551615,"space":3}}`
}

function memoOf(program: PublicKey): TransactionInstruction {
  return new TransactionInstruction({ programId: program, keys: [], data: Buffer.from('hi') })
}

async function invoke(node: SolanaNode, program: PublicKey): Promise<string[]> {
  const signature = await node.land([memoOf(program)], [await node.funded()])
  await node.reached(signature, 'confirmed')
  const found = await node.call('getTransaction', signature, { commitment: 'confirmed' })
  return found.result.meta.logMessages
}

/** The sentence with which the command ends, its exit code, and whether it left a chain. */
async function refused(
  ...flags: string[]
): Promise<{ code: number; stderr: string; left: boolean }> {
  const ledger = join(folder, `ledger-${address()}`)
  const words = devnodeWords(`--ledger=${ledger}`, '--rpc-port=0', '--grpc-port=0', ...flags)
  const { code, stderr } = await run(process.execPath, words).catch((error) => error)
  return { code, stderr, left: existsSync(join(ledger, 'chain')) }
}

const stakeConfig = 'StakeConfig11111111111111111111111111111111'

let first: Devnode
let source: SolanaNode
let elf: string
beforeAll(async () => {
  first = await startDevnode()
  source = await SolanaNode.of(first)
  const program = await source.connection.getAccountInfo(memo, 'processed')
  elf = inFolder('memo.so', program!.data)
})
afterAll(async () => {
  await first?.dispose()
  rmSync(folder, { recursive: true, force: true })
})

describe('the first block', () => {
  const [given, renamed, listed, wallet] = [address(), address(), address(), address()]
  const [fixed, upgradeable] = [Keypair.generate(), Keypair.generate()]
  const authority = Keypair.generate()
  let devnode: Devnode
  let node: SolanaNode
  beforeAll(async () => {
    const dir = join(folder, 'accounts')
    mkdirSync(dir)
    writeFileSync(join(dir, 'listed.json'), dump(listed, { lamports: 1, data: 'AAEC' }))
    writeFileSync(join(dir, 'config.json'), dump(stakeConfig, { lamports: 10_290_815, data: '' }))
    writeFileSync(join(dir, 'notes.txt'), 'no account')
    const huge = inFolder('given.json', dump(given, { lamports: 9_007_199_254_740_994, data: '' }))
    const other = inFolder('other.json', dump(address(), { lamports: 7, data: 'Zm9v' }))
    const keypair = inFolder('fixed.json', JSON.stringify([...fixed.secretKey]))
    devnode = await startDevnode({
      flags: [
        ...['--account', '-', huge, '--account', renamed, other, '--account-dir', dir],
        ...['--bpf-program', keypair, elf],
        ...['--upgradeable-program', upgradeable.publicKey.toBase58(), elf],
        ...[authority.publicKey.toBase58(), '--mint', wallet, '--faucet-sol', '1234567.5'],
        ...['--slots-per-epoch', '64', '--limit-ledger-size', '50000000'],
      ],
    })
    node = await SolanaNode.of(devnode)
  })
  afterAll(() => devnode?.dispose())

  it('has the accounts of files and folders, with lamports beyond 2^53', async () => {
    const answer = await fetch(node.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBalance', params: [given] }),
    })
    expect(await answer.text()).toContain('"value":9007199254740994')
    const account = await node.connection.getAccountInfo(new PublicKey(renamed), 'finalized')
    expect([account?.lamports, account?.data.toString()]).toEqual([7, 'foo'])
    const inFolderOne = await node.connection.getAccountInfo(new PublicKey(listed))
    expect(inFolderOne?.data).toEqual(Buffer.from([0, 1, 2]))
  })

  it('has what every cluster has, whatever a file says', async () => {
    const account = await node.connection.getAccountInfo(new PublicKey(stakeConfig))
    expect([account?.lamports, account?.data.length]).toEqual([960_480, 10])
    const { result } = await node.call('getSupply', { commitment: 'processed' })
    const accounts = await node.call('getLargestAccounts', { commitment: 'processed' })
    expect(result.value.total).toBeGreaterThanOrEqual(accounts.result.value[0].lamports)
  })

  it('funds the wallet of --mint and the faucet', async () => {
    expect((await node.call('getBalance', wallet)).result.value).toBe(500_000_000e9)
    const faucet = /^faucet +(\S+)/m.exec(devnode.stdout())![1]
    expect((await node.call('getBalance', faucet)).result.value).toBeLessThan(1_234_567.6e9)
    const epoch = await node.connection.getEpochInfo()
    expect(epoch.slotsInEpoch).toBe(64)
  })

  it('has programs that run, upgradeable by their authority or by nobody', async () => {
    expect((await invoke(node, fixed.publicKey)).join()).toContain('Memo')
    expect((await invoke(node, upgradeable.publicKey)).join()).toContain('Memo')
    for (const [program, key] of [
      [fixed, PublicKey.default],
      [upgradeable, authority.publicKey],
    ] as const) {
      const [code] = PublicKey.findProgramAddressSync([program.publicKey.toBytes()], loader)
      const { value } = await node.connection.getParsedAccountInfo(code)
      // Reason for the cast: what a parsed account has depends on its program.
      const { info } = (value!.data as unknown as { parsed: { info: object } }).parsed
      expect(info).toMatchObject({ authority: key.toBase58(), slot: 0 })
    }
  })

  it('is the same after a restart, which ignores the flags and says so', async () => {
    await devnode.stop()
    const missing = join(folder, 'missing.json')
    devnode = await startDevnode({
      ledger: devnode.ledger,
      flags: ['--account', '-', missing, '--mint', address()],
    })
    node = await SolanaNode.of(devnode)
    expect(devnode.stderr()).toMatch(/"--account, --mint".*ignored: the ledger exists/)
    expect((await node.call('getBalance', wallet)).result.value).toBe(500_000_000e9)
    expect((await invoke(node, fixed.publicKey)).join()).toContain('Memo')
  })
})

// What it cannot lend: integration/devnode-flags.test.ts.
describe('another node', () => {
  it('lends its accounts and programs', async () => {
    const loan = Keypair.generate().publicKey
    const from = await source.funded()
    await source.reached(await source.land([transfer(from, loan, 5_000_000)], [from]), 'finalized')
    const token = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'
    const devnode = await startDevnode({
      flags: [
        ...['-u', first.url('rpc'), '-c', loan.toBase58(), '--maybe-clone', address()],
        ...['--clone', memo.toBase58(), '--clone-upgradeable-program', token],
      ],
    })
    try {
      const node = await SolanaNode.of(devnode)
      expect(await node.connection.getBalance(loan, 'finalized')).toBe(5_000_000)
      expect((await invoke(node, memo)).join()).toContain('Memo')
      const program = await node.connection.getAccountInfo(new PublicKey(token), 'processed')
      expect(program?.executable).toBe(true)
    } finally {
      await devnode.dispose()
    }
  })
})

test('a mistake ends the start with one sentence and leaves no chain', async () => {
  const failed = await refused('--account', '-', '/no/file.json')
  const sentence = expect.stringMatching(/^[^\n]*--account: the file \/no\/file.json does[^\n]*\n$/)
  expect(failed).toEqual({ code: 1, stderr: sentence, left: false })
})
