// Transactions of unmodified clients against a devnode, read back with jsonParsed.
import { once } from 'node:events'
import {
  createAssociatedTokenAccountIdempotentInstruction,
  createHarvestWithheldTokensToMintInstruction,
  createInitializeInstruction,
  createInitializeMetadataPointerInstruction,
  createInitializeMintInstruction,
  createInitializeTransferFeeConfigInstruction,
  createMintToInstruction,
  createTransferCheckedWithFeeInstruction,
  createUpdateFieldInstruction,
  ExtensionType,
  getAssociatedTokenAddressSync,
  getMintLen,
  TOKEN_2022_PROGRAM_ID,
} from '@solana/spl-token'
import {
  Authorized,
  Keypair,
  PublicKey,
  StakeProgram,
  SystemProgram,
  TransactionInstruction,
  VoteInit,
  VoteProgram,
} from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { startDevnode } from '../testkit/devnode.ts'
import { bytes, u32 } from '../testkit/instruction-json.ts'
import { SolanaNode } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

interface Shown {
  readonly program: string
  readonly parsed: { readonly type: string; readonly info: Record<string, unknown> }
  readonly stackHeight: number
}

const token = TOKEN_2022_PROGRAM_ID
const loader = new PublicKey('BPFLoaderUpgradeab1e11111111111111111111111')
const memo = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')

let node: SolanaNode
beforeAll(async () => {
  node = await SolanaNode.of(await startDevnode())
})
afterAll(() => node?.dispose())

/** Lands it; returns all of its instructions, each followed by those it called. */
async function landed(instructions: TransactionInstruction[], signers: Keypair[]) {
  const signature = await node.land(instructions, signers)
  await node.reached(signature, 'confirmed')
  const config = { encoding: 'jsonParsed', commitment: 'confirmed' }
  const { result } = await node.call('getTransaction', signature, config)
  expect(result.meta.err).toBeNull()
  return instructionsOf(result)
}

// biome-ignore lint/suspicious/noExplicitAny: a test looks at whatever came
function instructionsOf({ transaction, meta }: any): Shown[] {
  expect(meta).not.toHaveProperty('loadedAddresses')
  return transaction.message.instructions.flatMap((outer: Shown, index: number) => {
    const called = meta.innerInstructions.filter(
      (inner: { index: number }) => inner.index === index,
    )
    return [outer, ...called.flatMap((inner: { instructions: Shown[] }) => inner.instructions)]
  })
}

/** `program type` of each; a raw one has neither. */
const kinds = (shown: readonly Shown[]) =>
  shown.map(({ program, parsed }) => `${program} ${parsed?.type ?? typeof parsed}`)

const rentOf = (space: number) => node.connection.getMinimumBalanceForRentExemption(space)

describe('jsonParsed of a devnode', () => {
  it('shows every instruction of a Token-2022 mint with a fee and metadata', async () => {
    const payer = await node.funded()
    const mint = Keypair.generate()
    const [key, owner] = [mint.publicKey, payer.publicKey]
    const space = getMintLen([ExtensionType.MetadataPointer, ExtensionType.TransferFeeConfig])
    const authority = { programId: token, metadata: key, updateAuthority: owner }
    const text = { name: 'Token', symbol: 'TOK', uri: 'https://localhost/token.json' }
    const created = await landed(
      [
        SystemProgram.createAccount({
          fromPubkey: owner,
          newAccountPubkey: key,
          space,
          lamports: await rentOf(space + 500),
          programId: token,
        }),
        createInitializeMetadataPointerInstruction(key, owner, key, token),
        createInitializeTransferFeeConfigInstruction(key, owner, owner, 100, 1_000n),
        createInitializeMintInstruction(key, 2, owner, null, token),
        createInitializeInstruction({ ...authority, mint: key, mintAuthority: owner, ...text }),
        createUpdateFieldInstruction({ ...authority, field: 'colour', value: 'red' }),
      ],
      [payer, mint],
    )
    expect(kinds(created)).toEqual([
      'system createAccount',
      'spl-token initializeMetadataPointer',
      'spl-token initializeTransferFeeConfig',
      'spl-token initializeMint',
      'spl-token initializeTokenMetadata',
      'spl-token updateTokenMetadataField',
    ])
    expect(created[4]!.parsed.info).toEqual({
      metadata: key.toBase58(),
      mint: key.toBase58(),
      mintAuthority: owner.toBase58(),
      updateAuthority: owner.toBase58(),
      ...text,
    })
    const other = Keypair.generate().publicKey
    const accounts = [owner, other].map((of) => ({
      of,
      account: getAssociatedTokenAddressSync(key, of, false, token),
    }))
    const [mine, theirs] = accounts.map(({ account }) => account) as [PublicKey, PublicKey]
    const moved = await landed(
      [
        ...accounts.map(({ of, account }) =>
          createAssociatedTokenAccountIdempotentInstruction(owner, account, of, key, token),
        ),
        createMintToInstruction(key, mine, owner, 500, [], token),
        createTransferCheckedWithFeeInstruction(mine, key, theirs, owner, 300n, 2, 3n, [], token),
        createHarvestWithheldTokensToMintInstruction(key, [theirs], token),
        new TransactionInstruction({ programId: memo, keys: [], data: Buffer.from('thanks') }),
      ],
      [payer],
    )
    const account = [
      'spl-associated-token-account createIdempotent',
      'spl-token getAccountDataSize',
      'system createAccount',
      'spl-token initializeImmutableOwner',
      'spl-token initializeAccount3',
    ]
    expect(kinds(moved)).toEqual([
      ...account,
      ...account,
      'spl-token mintTo',
      'spl-token transferCheckedWithFee',
      'spl-token harvestWithheldTokensToMint',
      'spl-memo string',
    ])
    expect(moved[1]!.parsed.info).toEqual({
      extensionTypes: ['immutableOwner'],
      mint: key.toBase58(),
    })
    expect(moved.map(({ stackHeight }) => stackHeight).slice(0, 6)).toEqual([1, 2, 2, 2, 2, 1])
  })

  it('shows every instruction of a stake, its validator and a program buffer', async () => {
    const payer = await node.funded()
    const [vote, identity, stake, buffer] = Array.from({ length: 4 }, () => Keypair.generate())
    const owner = payer.publicKey
    const lamports = (await rentOf(VoteProgram.space)) + 1
    const init = new VoteInit(identity!.publicKey, owner, owner, 5)
    const votePubkey = vote!.publicKey
    const validator = VoteProgram.createAccount({
      fromPubkey: owner,
      votePubkey,
      lamports,
      voteInit: init,
    })
    expect(kinds(await landed(validator.instructions, [payer, vote!, identity!]))).toEqual([
      'system createAccount',
      'vote initialize',
    ])
    const [stakePubkey, authorizedPubkey] = [stake!.publicKey, owner]
    const staked = await landed(
      [
        ...StakeProgram.createAccount({
          fromPubkey: owner,
          stakePubkey,
          authorized: new Authorized(owner, owner),
          lamports: 2_000_000_000,
        }).instructions,
        ...StakeProgram.delegate({ stakePubkey, authorizedPubkey, votePubkey }).instructions,
        ...StakeProgram.deactivate({ stakePubkey, authorizedPubkey }).instructions,
      ],
      [payer, stake!],
    )
    expect(kinds(staked)).toEqual([
      'system createAccount',
      'stake initialize',
      'stake delegate',
      'stake deactivate',
    ])
    expect(staked[1]!.parsed.info).toMatchObject({
      authorized: { staker: owner.toBase58(), withdrawer: owner.toBase58() },
      lockup: { epoch: 0, unixTimestamp: 0 },
    })
    const keys = [buffer!.publicKey, owner].map((pubkey, index) => ({
      pubkey,
      isSigner: index === 1,
      isWritable: index === 0,
    }))
    const call = (data: Buffer) => new TransactionInstruction({ programId: loader, keys, data })
    const written = await landed(
      [
        SystemProgram.createAccount({
          fromPubkey: owner,
          newAccountPubkey: buffer!.publicKey,
          space: 100,
          lamports: await rentOf(100),
          programId: loader,
        }),
        call(u32(0)),
        call(bytes(u32(1), u32(4), 3n, 1, 2, 3)),
      ],
      [payer, buffer!],
    )
    expect(kinds(written)).toEqual([
      'system createAccount',
      'bpf-upgradeable-loader initializeBuffer',
      'bpf-upgradeable-loader write',
    ])
    expect(written[2]!.parsed.info).toMatchObject({ offset: 4, bytes: 'AQID' })
  })

  it('sends the same to blockSubscribe', async () => {
    const payer = await node.funded()
    const key = payer.publicKey.toBase58()
    const socket = new WebSocket(node.server.url('websocket'))
    await once(socket, 'open')
    const messages: string[] = []
    socket.on('message', (data) => messages.push(String(data)))
    const config = { commitment: 'confirmed', encoding: 'jsonParsed' }
    const params = [{ mentionsAccountOrProgram: key }, config]
    socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'blockSubscribe', params }))
    await until(() => messages.length > 0, 'the subscription')
    const transfer = { fromPubkey: payer.publicKey, toPubkey: payer.publicKey, lamports: 77 }
    await node.land([SystemProgram.transfer(transfer)], [payer])
    const hasTransfer = (message: string) => message.includes('"lamports":77')
    await until(() => messages.some(hasTransfer), 'the block')
    const { value } = JSON.parse(messages.find(hasTransfer)!).params.result
    const blocks = value.block.transactions.map(instructionsOf).map(kinds)
    expect(blocks).toContainEqual(['system transfer'])
    socket.close()
  })
})
