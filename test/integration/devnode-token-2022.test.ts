// Token-2022 mints and accounts, created with the unmodified spl-token client and read as
// jsonParsed; their amounts beside what the token program itself computes.
import * as spl from '@solana/spl-token'
import {
  type Connection,
  Keypair,
  type PublicKey,
  SystemProgram,
  type TransactionInstruction,
} from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { ShortSlotConnection, SolanaNode } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

const program = spl.TOKEN_2022_PROGRAM_ID
const type = spl.ExtensionType
const { Initialized: initialized } = spl.AccountState
const decimals = 9
const options = { commitment: 'confirmed' as const }
const processed = { commitment: 'processed' }
/** The last arguments of the client's actions. */
const end = [[], options, program] as [[], typeof options, PublicKey]

let devnode: Devnode
let node: SolanaNode
let connection: Connection
let payer: Keypair
let me: PublicKey

beforeAll(async () => {
  devnode = await startDevnode()
  node = await SolanaNode.of(devnode)
  connection = new ShortSlotConnection(devnode.url('rpc'), {
    commitment: 'confirmed',
    wsEndpoint: devnode.url('websocket'),
  })
  payer = await node.funded()
  me = payer.publicKey
})
afterAll(() => devnode?.dispose())

/** A mint with extensions, which `initialize` prepares. */
async function createMint(
  extensions: spl.ExtensionType[],
  initialize: (mint: PublicKey) => TransactionInstruction[],
): Promise<PublicKey> {
  const keypair = Keypair.generate()
  const mint = keypair.publicKey
  const space = spl.getMintLen(extensions)
  const lamports = await connection.getMinimumBalanceForRentExemption(space)
  const keys = { fromPubkey: me, newAccountPubkey: mint }
  const signature = await node.land(
    [
      SystemProgram.createAccount({ ...keys, space, lamports, programId: program }),
      ...initialize(mint),
      spl.createInitializeMintInstruction(mint, decimals, me, me, program),
    ],
    [payer, keypair],
  )
  await node.reached(signature, 'confirmed')
  return mint
}

/** One of the client's actions. */
function act<Args extends unknown[]>(
  action: (connection: Connection, payer: Keypair, ...args: Args) => Promise<string>,
  ...args: Args
): Promise<string> {
  return action(connection, payer, ...args)
}

async function createHolder(mint: PublicKey): Promise<PublicKey> {
  return spl.createAccount(connection, payer, mint, me, Keypair.generate(), options, program)
}

async function parsedOf(key: PublicKey) {
  const config = { ...processed, encoding: 'jsonParsed' }
  return (await node.call('getAccountInfo', key.toBase58(), config)).result.value.data
}

describe('a mint of Token-2022', () => {
  it('is shown with its extensions, metadata and group, and its account with theirs', async () => {
    const other = Keypair.generate().publicKey
    const mint = await createMint(
      [
        type.TransferFeeConfig,
        type.MintCloseAuthority,
        type.DefaultAccountState,
        type.PermanentDelegate,
        type.TransferHook,
        type.MetadataPointer,
        type.GroupPointer,
        type.GroupMemberPointer,
        type.PausableConfig,
      ],
      (at) => [
        spl.createInitializeTransferFeeConfigInstruction(at, me, null, 250, 2n ** 63n, program),
        spl.createInitializeMintCloseAuthorityInstruction(at, me, program),
        spl.createInitializeDefaultAccountStateInstruction(at, initialized, program),
        spl.createInitializePermanentDelegateInstruction(at, other, program),
        spl.createInitializeTransferHookInstruction(at, me, other, program),
        spl.createInitializeMetadataPointerInstruction(at, null, at, program),
        spl.createInitializeGroupPointerInstruction(at, me, at, program),
        spl.createInitializeGroupMemberPointerInstruction(at, me, null, program),
        spl.createInitializePausableConfigInstruction(at, me, program),
      ],
    )
    const texts = ['Nämë', 'N', 'https://n.example'] as [string, string, string]
    await act(spl.tokenMetadataInitializeWithRentTransfer, mint, me, payer, ...texts, ...end)
    await act(spl.tokenMetadataUpdateFieldWithRentTransfer, mint, payer, 'colour', 'red', ...end)
    await act(spl.tokenGroupInitializeGroupWithRentTransfer, mint, payer, me, 7n, ...end)
    const [own, at, hook] = [me, mint, other].map((key) => key.toBase58())
    const { parsed } = await parsedOf(mint)
    const fee = { epoch: 0, maximumFee: 2 ** 63, transferFeeBasisPoints: 250 }
    expect(parsed.info.extensions).toEqual([
      {
        extension: 'transferFeeConfig',
        state: {
          transferFeeConfigAuthority: own,
          withdrawWithheldAuthority: null,
          withheldAmount: 0,
          olderTransferFee: fee,
          newerTransferFee: fee,
        },
      },
      { extension: 'mintCloseAuthority', state: { closeAuthority: own } },
      { extension: 'defaultAccountState', state: { accountState: 'initialized' } },
      { extension: 'permanentDelegate', state: { delegate: hook } },
      { extension: 'transferHook', state: { authority: own, programId: hook } },
      { extension: 'metadataPointer', state: { authority: null, metadataAddress: at } },
      { extension: 'groupPointer', state: { authority: own, groupAddress: at } },
      { extension: 'groupMemberPointer', state: { authority: own, memberAddress: null } },
      { extension: 'pausableConfig', state: { authority: own, paused: false } },
      {
        extension: 'tokenMetadata',
        state: {
          updateAuthority: own,
          mint: at,
          name: 'Nämë',
          symbol: 'N',
          uri: 'https://n.example',
          additionalMetadata: [['colour', 'red']],
        },
      },
      { extension: 'tokenGroup', state: { updateAuthority: own, mint: at, size: 0, maxSize: 7 } },
    ])
    const holder = await createHolder(mint)
    const extend = [type.MemoTransfer, type.CpiGuard]
    await node.land(
      [
        spl.createReallocateInstruction(holder, me, extend, me, [], program),
        spl.createEnableRequiredMemoTransfersInstruction(holder, me, [], program),
        spl.createEnableCpiGuardInstruction(holder, me, [], program),
      ],
      [payer],
    )
    const { program: name, parsed: account } = await parsedOf(holder)
    expect([name, account.type]).toEqual(['spl-token-2022', 'account'])
    expect(account.info.extensions).toEqual(
      expect.arrayContaining([
        { extension: 'transferFeeAmount', state: { withheldAmount: 0 } },
        { extension: 'transferHookAccount', state: { transferring: false } },
        { extension: 'pausableAccount' },
        { extension: 'memoTransfer', state: { requireIncomingTransferMemos: true } },
        { extension: 'cpiGuard', state: { lockCpi: true } },
      ]),
    )
  })

  it('is shown as the member of a group', async () => {
    const group = await createMint([type.GroupPointer], (at) => [
      spl.createInitializeGroupPointerInstruction(at, me, at, program),
    ])
    const member = await createMint([type.GroupMemberPointer], (at) => [
      spl.createInitializeGroupMemberPointerInstruction(at, me, at, program),
    ])
    await act(spl.tokenGroupInitializeGroupWithRentTransfer, group, payer, me, 7n, ...end)
    await act(spl.tokenGroupMemberInitializeWithRentTransfer, member, payer, group, me, ...end)
    const [one, many] = [member.toBase58(), group.toBase58()]
    expect((await parsedOf(member)).parsed.info.extensions[1]).toEqual({
      extension: 'tokenGroupMember',
      state: { mint: one, group: many, memberNumber: 1 },
    })
    expect((await parsedOf(group)).parsed.info.extensions[1].state.size).toBe(1)
  })
})

describe('lists of token accounts', () => {
  it('leave out what cannot be parsed, and are sorted by amount, then by address', async () => {
    const mint = await createMint([], () => [])
    const holders = await Promise.all([1, 2, 3].map(() => createHolder(mint)))
    const keypair = Keypair.generate()
    const keys = { fromPubkey: me, newAccountPubkey: keypair.publicKey, programId: program }
    const lamports = await connection.getMinimumBalanceForRentExemption(165)
    const unfinished = SystemProgram.createAccount({ ...keys, space: 165, lamports })
    await node.land([unfinished], [payer, keypair])
    const list = async (encoding: string) => {
      const config = { ...processed, encoding, filters: [{ dataSize: 165 }] }
      const { result } = await node.call('getProgramAccounts', program.toBase58(), config)
      return result.map((one: { pubkey: string }) => one.pubkey)
    }
    expect(await list('base64')).toContain(keypair.publicKey.toBase58())
    const parsed = await list('jsonParsed')
    expect(parsed).not.toContain(keypair.publicKey.toBase58())
    expect(parsed).toEqual(expect.arrayContaining(holders.map((key) => key.toBase58())))
    await act(spl.mintTo, mint, holders[0]!, payer, 5n, ...end)
    const largest = await node.call('getTokenLargestAccounts', mint.toBase58(), processed)
    const rest = holders.slice(1).sort((a, b) => Buffer.compare(b.toBytes(), a.toBytes()))
    expect(largest.result.value.map((one: { address: string }) => one.address)).toEqual(
      [holders[0]!, ...rest].map((key) => key.toBase58()),
    )
    const { error } = await node.call('getTokenLargestAccounts', me.toBase58(), processed)
    expect(error?.message).toBe('Invalid param: Token mint could not be unpacked')
  })
})

describe('amounts of a mint', () => {
  const amount = 1_234_567_890_123n

  /** What each method shows of an account that holds the whole supply. */
  async function shownOf(mint: PublicKey, holder: PublicKey): Promise<Set<string>> {
    const [at, own] = [mint.toBase58(), holder.toBase58()]
    const owner = [me.toBase58(), { mint: at }, { ...processed, encoding: 'jsonParsed' }]
    const [balance, supply, largest, accounts, info] = await Promise.all([
      node.call('getTokenAccountBalance', own, processed),
      node.call('getTokenSupply', at, processed),
      node.call('getTokenLargestAccounts', at, processed),
      node.call('getTokenAccountsByOwner', ...owner),
      parsedOf(holder),
    ])
    const amounts = [
      balance.result.value,
      supply.result.value,
      largest.result.value[0],
      accounts.result.value[0].account.data.parsed.info.tokenAmount,
      info.parsed.info.tokenAmount,
    ]
    for (const one of amounts) expect(one).toMatchObject({ amount: String(amount), decimals })
    for (const one of amounts) expect(one.uiAmount).toBe(Number(one.uiAmountString))
    return new Set(amounts.map((one) => one.uiAmountString))
  }

  /** Waits for a moment in which the program's answer does not change while ours is read. */
  async function expectProgramsOwn(mint: PublicKey, holder: PublicKey): Promise<string> {
    const ask = () => spl.amountToUiAmount(node.connection, payer, mint, amount, program)
    let same = ''
    await until(async () => {
      const before = await ask()
      const shown = await shownOf(mint, holder)
      if ((await ask()) !== before) return false
      expect([...shown]).toEqual([before])
      same = String(before)
      return true
    }, 'an amount that does not change meanwhile')
    return same
  }

  it('with interest are those that the program computes, and grow', async () => {
    const mint = await createMint([type.InterestBearingConfig], (at) => [
      spl.createInitializeInterestBearingMintInstruction(at, me, 30_000, program),
    ])
    const holder = await createHolder(mint)
    await act(spl.mintTo, mint, holder, payer, amount, ...end)
    const first = Number(await expectProgramsOwn(mint, holder))
    await until(async () => Number(await expectProgramsOwn(mint, holder)) > first, 'interest')
  })

  it('with a multiplier are those that the program computes; a transaction has plain ones', async () => {
    const mint = await createMint([type.ScaledUiAmountConfig], (at) => [
      spl.createInitializeScaledUiAmountConfigInstruction(at, me, 1.7, program),
    ])
    const holder = await createHolder(mint)
    await act(spl.mintTo, mint, holder, payer, amount, ...end)
    expect(await expectProgramsOwn(mint, holder)).toBe('2098.765413209')
    await node.land(
      [spl.createUpdateMultiplierDataInstruction(mint, me, 1e-4, 1n, [], program)],
      [payer],
    )
    expect(await expectProgramsOwn(mint, holder)).toBe('0.123456789')
    const other = await createHolder(mint)
    const signature = await act(
      spl.transferChecked,
      holder,
      mint,
      other,
      payer,
      1n,
      decimals,
      ...end,
    )
    const landed = await connection.getTransaction(signature, {
      ...options,
      maxSupportedTransactionVersion: 0,
    })
    expect(landed?.meta?.preTokenBalances?.map((one) => one.uiTokenAmount.uiAmountString)).toEqual(
      expect.arrayContaining(['1234.567890123', '0']),
    )
  })

  it('are in a transaction when the mint is of the same program as the account', async () => {
    const mint = await createMint([], () => [])
    const [own, other] = [Keypair.generate().publicKey, Keypair.generate().publicKey]
    const data = Buffer.alloc(165)
    data.set(mint.toBytes())
    data[108] = 1
    for (const [key, owner] of [
      [own, program],
      [other, spl.TOKEN_PROGRAM_ID],
    ] as const) {
      const update = { lamports: 1e9, data: data.toString('hex'), owner: owner.toBase58() }
      expect((await node.call('surfnet_setAccount', key.toBase58(), update)).error).toBeUndefined()
    }
    const move = SystemProgram.transfer({ fromPubkey: me, toPubkey: me, lamports: 1 })
    for (const pubkey of [own, other, program])
      move.keys.push({ pubkey, isSigner: false, isWritable: false })
    const signature = await node.land([move], [payer])
    await node.reached(signature, 'confirmed')
    const landed = await node.call('getTransaction', signature, options)
    expect(landed.result.meta.postTokenBalances).toMatchObject([{ programId: program.toBase58() }])
  })
})
