// The devnode as each version of agave, and the stream's answers beside its own: one chain in this
// process, one table of methods and one set of answers per version, equal to the byte.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Commitment } from '../../src/base/commitment.ts'
import type { Answer } from '../../src/base/jsonrpc/build.ts'
import { decodeKey, encodeBase58 } from '../../src/chain/solana/base58.ts'
import { Keypair } from '../../src/chain/solana/keypair.ts'
import { nativeMint, programs, sysvars } from '../../src/chain/solana/programs.ts'
import { agaveVersions, type Shapes, shapesByVersion } from '../../src/chain/solana/version.ts'
import {
  buildTransaction,
  type Instruction,
  transferInstruction,
  unitLimitInstruction,
  unitPriceInstruction,
} from '../../src/devnode/build.ts'
import { embeddedRpcMethods } from '../../src/devnode/rpc/methods.ts'
import { StreamAnswers } from '../../src/streams/answers/stream-answers.ts'
import { ChainStage, good } from '../testkit/chain-stage.ts'
import { v1Message, v1Transaction } from '../testkit/transaction-v1.ts'
import { until } from '../testkit/until.ts'

const everyVersion = agaveVersions.map((agave) => shapesByVersion[agave])
const nowhere = { host: '127.0.0.1', rpc: 0, ws: 0, udp: 0, shredVersion: 1 }
const stage = new ChainStage({ slotMs: 20, traffic: 20 })
const payer = new Keypair(randomBytes(32))
const wallet = randomBytes(32)
const answersOf = new Map<Shapes, StreamAnswers>()
const notFound = { code: -32601 }
/** The chain of a plain node; with a block after which Alpenglow began where a test has one. */
const cluster = {
  nodes: [{ identity: '1'.repeat(32), contact: () => nowhere }],
  leaderOf: () => 0,
  isMigrated: () => false,
  genesisBlock: () => genesisBlock,
}
let genesisBlock: { readonly slot: number; readonly blockId: Uint8Array } | null = null

beforeAll(async () => {
  await stage.start()
  const { ledger } = stage.chain
  const read = async (pubkey: Uint8Array) => {
    const slot = ledger.slot(Commitment.confirmed)
    return { slot, account: ledger.account(pubkey, Commitment.confirmed) }
  }
  for (const shapes of everyVersion) {
    const version = () => shapes.release['solana-core']
    const answers = new StreamAnswers(stage.hub, {
      isLive: () => true,
      apiVersion: version,
      nodeVersion: version,
      accounts: { bytesMax: 10_000_000, read },
      blocks: { bytesMax: 100_000_000 },
    })
    answersOf.set(shapes, answers)
    // From the first call on it follows the fees.
    answers.answer(callOf('getRecentPrioritizationFees', []))
  }
  good(stage.chain.requestAirdrop(payer.publicKey, 100_000_000_000n))
})
afterAll(() => stage.dispose())

function callOf(method: string, params: readonly unknown[]) {
  return { method, params, paramsText: JSON.stringify(params), id: '1' }
}

/** What the devnode answers as that version. */
async function ask(shapes: Shapes, method: string, ...params: unknown[]): Promise<string> {
  const { chain } = stage
  const answer = embeddedRpcMethods({ chain, ledger: chain.ledger, cluster, shapes })[method]
  if (answer === undefined) return JSON.stringify(notFound)
  // biome-ignore lint/suspicious/noExplicitAny: the table's callers are of any type.
  const given: Answer = await answer(callOf(method, params) as any, undefined as any)
  if (given.kind === 'text') return given.text
  if ('value' in given) return JSON.stringify(given.value)
  return JSON.stringify('error' in given ? given.error : given.kind)
}

// biome-ignore lint/suspicious/noExplicitAny: results of many methods.
const results = (method: string, ...params: unknown[]): Promise<any[]> =>
  Promise.all(everyVersion.map(async (shapes) => JSON.parse(await ask(shapes, method, ...params))))

async function land(...instructions: Instruction[]): Promise<string> {
  const { chain } = stage
  const blockhash = decodeKey(chain.ledger.latestBlockhash(Commitment.processed).blockhash)!
  const bytes = buildTransaction({ signers: [payer], blockhash, instructions })
  chain.submit(bytes, { isVerified: false })
  return encodeBase58(bytes, 1, 65)
}

const readonly = (pubkey: Uint8Array) => ({ pubkey, isSigner: false, isWritable: false })
const three = [1, 2, 3].map((fill) => readonly(new Uint8Array(32).fill(fill)))

describe('the devnode as each version of agave', () => {
  it('says which one it is', async () => {
    const cores = ['4.0.3', '4.1.2', '4.2.1', '4.3.0-beta.2']
    const versions = await results('getVersion')
    expect(versions.map((version) => version['solana-core'])).toEqual(cores)
    const contexts = await results('getBalance', encodeBase58(wallet))
    expect(contexts.map(({ context }) => context.apiVersion)).toEqual(cores)
    const nodes = await results('getClusterNodes')
    expect(nodes.map(([{ version, featureSet }]) => [version, featureSet])).toEqual(
      versions.map((version) => [version['solana-core'], version['feature-set']]),
    )
  })

  it('has getAgGenesisCert since 4.2', async () => {
    expect(await results('getAgGenesisCert')).toEqual([notFound, notFound, null, null])
    genesisBlock = { slot: 7, blockId: Uint8Array.of(1, 2) }
    const shown = await results('getAgGenesisCert')
    genesisBlock = null
    expect(shown.map(({ block }) => block)).toEqual([
      undefined,
      undefined,
      { block_id: [1, 2], slot: 7 },
      { blockId: [1, 2], slot: 7 },
    ])
  })

  it('takes at most 32 addresses in getInflationReward since 4.3', async () => {
    const addresses = Array.from({ length: 33 }, () => encodeBase58(randomBytes(32)))
    const refused = { code: -32602, message: 'Too many inputs provided; max 32' }
    const given = await results('getInflationReward', addresses)
    expect(given.at(-1)).toEqual(refused)
    for (const other of given.slice(0, -1)) expect(other.message).not.toBe(refused.message)
  })

  it('shows the commission of vote accounts in basis points since 4.1', async () => {
    const lists = await results('getVoteAccounts')
    const votes = lists.map(({ current, delinquent }) => [...current, ...delinquent][0])
    const shown = votes.map((vote) => [
      Object.keys(vote).includes('inflationRewardsCommissionBps'),
      vote.inflationRewardsCommissionBps,
      vote.commission,
    ])
    const later = [true, 0, 0]
    expect(shown).toEqual([[false, undefined, 0], later, later, later])
    expect(Object.keys(votes[3])).toEqual(Object.keys(votes[3]).sort())
  })

  it('shows rent and stakes as that version does', async () => {
    const config = { encoding: 'jsonParsed' }
    const rents = await results('getAccountInfo', encodeBase58(sysvars.rent), config)
    expect(rents.map(({ value }) => Object.keys(value.data.parsed.info))).toEqual([
      ['burnPercent', 'exemptionThreshold', 'lamportsPerByteYear'],
      ['lamportsPerByte'],
      ['lamportsPerByte'],
      ['lamportsPerByte'],
    ])
    const stakes = await results('getProgramAccounts', encodeBase58(programs.stake), config)
    const hasRate = stakes.map(
      ([{ account }]) => 'warmupCooldownRate' in account.data.parsed.info.stake.delegation,
    )
    expect(hasRate).toEqual([true, false, false, false])
  })

  it('lists memos of version 4 since 4.2', async () => {
    const memo = { program: programs.memoV4, accounts: [], data: Buffer.from('hi') }
    const signature = await land(memo, transferInstruction(payer.publicKey, wallet, 1_000_000n))
    const memosOf = async () => {
      const lists = await results('getSignaturesForAddress', encodeBase58(programs.memoV4), {
        commitment: 'confirmed',
      })
      return lists.map(
        (list) => list.find((one: { signature: string }) => one.signature === signature)?.memo,
      )
    }
    await until(async () => (await memosOf())[0] !== undefined, 'the memo')
    expect(await memosOf()).toEqual([null, null, '[2] hi', '[2] hi'])
  })

  it('takes version 1 since 4.1, and longer ones since 4.2', async () => {
    const { ledger } = stage.chain
    const made = (length: number, blockhash: Uint8Array) => ({
      signers: [payer],
      readonly: [programs.memo],
      blockhash,
      config: { units: 200_000, loadedBytes: 1_000_000 },
      instructions: [{ program: 1, accounts: [], data: Buffer.alloc(length, 'a') }],
    })
    const simulated = async (length: number) => {
      const blockhash = decodeKey(ledger.latestBlockhash(Commitment.processed).blockhash)!
      const text = Buffer.from(v1Transaction(made(length, blockhash))).toString('base64')
      const config = { encoding: 'base64', sigVerify: true, commitment: 'processed' }
      const given = await results('simulateTransaction', text, config)
      return given.map(({ message, value }) => message ?? value.err)
    }
    const typeName = 'solana_transaction::versioned::VersionedTransaction'
    const unread = `failed to deserialize ${typeName}: io error: failed to fill whole buffer`
    expect(await simulated(100)).toEqual([unread, null, null, null])
    const tooLong = `base64 encoded ${typeName} too large: 2192 bytes (max: encoded/raw 1644/1232)`
    expect(await simulated(1_460)).toEqual([tooLong, tooLong, null, null])
    const blockhash = decodeKey(ledger.latestBlockhash(Commitment.finalized).blockhash)!
    const message = v1Message(made(10, blockhash)).toString('base64')
    const fees = await results('getFeeForMessage', message)
    expect(fees.map(({ message: refusal, value }) => refusal ?? value)).toEqual([
      'failed to deserialize solana_message::versions::VersionedMessage: ' +
        'invalid value: integer `1`, expected a valid transaction message version',
      5_000,
      5_000,
      5_000,
    ])
  })
})

describe('answers from the stream', () => {
  /** Asks both until the stream answers; returns the text of each version. */
  async function compare(method: string, ...params: unknown[]): Promise<string[]> {
    const texts: string[] = []
    for (const shapes of everyVersion) {
      await until(async () => {
        const found = answersOf.get(shapes)!.answer(callOf(method, params))
        if (found === null || found.answer.kind !== 'text') return false
        // In the same turn: the chain does not move between the two.
        const there = await ask(shapes, method, ...params)
        expect([shapes.agave, found.answer.text]).toEqual([shapes.agave, there])
        texts.push(there)
        return true
      }, `${method} of ${shapes.agave} from the stream`)
    }
    return texts
  }

  /** Whether each text differs from the one of the version before, its context apart. */
  const differsFrom = (texts: readonly string[]) => {
    const contents = texts.map((text) => text.replace(/^\{"context":\{[^}]*\},/, ''))
    return contents.slice(1).map((text, index) => text !== contents[index])
  }

  it("are the node's for each version: accounts", async () => {
    const { ledger } = stage.chain
    const config = { encoding: 'jsonParsed', commitment: 'finalized' }
    const [stake] = [...ledger.accountsByOwner(programs.stake, Commitment.finalized)]
    const texts = await compare('getAccountInfo', encodeBase58(stake!.pubkey), config)
    expect(differsFrom(texts)).toEqual([true, false, false])
    const plain = await compare('getMultipleAccounts', [encodeBase58(nativeMint)], config)
    expect(differsFrom(plain)).toEqual([false, false, false])
  })

  it("are the node's for each version: transactions and blocks", async () => {
    const unwrap = { program: programs.token, accounts: three, data: Buffer.of(45, 0) }
    const batch = { ...unwrap, data: Buffer.of(255) }
    const migrate = { ...unwrap, program: programs.upgradeableLoader, data: Buffer.of(8, 0, 0, 0) }
    const deposit = {
      ...unwrap,
      program: programs.token2022,
      data: Buffer.concat([Buffer.of(27, 5), Buffer.alloc(9)]),
    }
    const empty = { ...deposit, accounts: [...three, readonly(wallet)], data: Buffer.of(27, 4, 1) }
    const signature = await land(migrate, unwrap, batch, deposit, empty)
    const config = {
      encoding: 'jsonParsed',
      commitment: 'confirmed',
      maxSupportedTransactionVersion: 1,
    }
    const texts = await compare('getTransaction', signature, config)
    expect(differsFrom(texts)).toEqual([true, true, true])
    const parsedOf = (text: string) =>
      JSON.parse(text).transaction.message.instructions.map(
        // biome-ignore lint/suspicious/noExplicitAny: parsed instructions.
        ({ parsed }: any) => parsed?.type ?? null,
      )
    const confidential = 'emptyConfidentialTransferAccount'
    expect(texts.map(parsedOf)).toEqual([
      ['migrate', null, null, null, confidential],
      [null, null, null, null, confidential],
      [null, 'unwrapLamports', 'batch', 'depositConfidentialTransfer', confidential],
      [null, 'unwrapLamports', 'batch', 'depositConfidentialTransfer', confidential],
    ])
    const { slot } = JSON.parse(texts[0]!)
    for (const transactionDetails of ['full', 'accounts', 'signatures', 'none'])
      await compare('getBlock', slot, { ...config, transactionDetails })
  })

  it("are the node's for each version: fees", async () => {
    const method = 'getRecentPrioritizationFees'
    const address = encodeBase58(wallet)
    // A block that takes 42 micro-lamports a unit, and is paid a lamport for 6,000 of them.
    await land(
      unitPriceInstruction(42n),
      unitLimitInstruction(6_000),
      transferInstruction(payer.publicKey, wallet, 1_000_000n),
    )
    const texts = await compare(method, [address])
    const ratesOf = (text: string) =>
      (JSON.parse(text) as { prioritizationFee: number }[]).map((row) => row.prioritizationFee)
    expect(ratesOf(texts[0]!)).not.toContain(166)
    for (const text of texts.slice(1)) expect(ratesOf(text)).not.toContain(42)
  })
})
