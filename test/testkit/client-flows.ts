// What programs built on web3.js 1.x do with a node, with the clients as they are published: each
// confirms over the WebSocket, and none of them can send a header.
import { AnchorProvider, Wallet } from '@coral-xyz/anchor'
import {
  createMint,
  getAccount,
  getMint,
  getOrCreateAssociatedTokenAccount,
  mintTo,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
  transfer,
} from '@solana/spl-token'
import {
  AddressLookupTableProgram,
  Connection,
  Keypair,
  NONCE_ACCOUNT_LENGTH,
  PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import { beforeAll, expect, it } from 'vitest'
import { deployProgram, upgradeableLoader, upgradeProgram } from './loader-instructions.ts'
import { until } from './until.ts'

/** Addresses as a user gives them to a client, with the token in the URL where one is needed. */
export interface ClientPlace {
  readonly http: string
  readonly ws: string
}

const sol = 1_000_000_000
const memo = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')

/** Declares the tests, of which one follows another; `place` is asked when they run. */
export function describeClientFlows(place: () => ClientPlace): void {
  let connection: Connection
  let payer: Keypair
  beforeAll(async () => {
    const { http, ws } = place()
    connection = new Connection(http, { commitment: 'confirmed', wsEndpoint: ws })
    payer = Keypair.generate()
    const signature = await connection.requestAirdrop(payer.publicKey, 100 * sol)
    const latest = await connection.getLatestBlockhash()
    const { value } = await connection.confirmTransaction({ signature, ...latest }, 'confirmed')
    expect(value.err).toBeNull()
  })

  const pay = (to: PublicKey, lamports: number) =>
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: to, lamports })
  const send = (...instructions: TransactionInstruction[]) =>
    sendAndConfirmTransaction(connection, new Transaction().add(...instructions), [payer])

  it.sequential.each([
    ['Token', TOKEN_PROGRAM_ID],
    ['Token-2022', TOKEN_2022_PROGRAM_ID],
  ])('spl-token creates a mint, mints and transfers with %s', async (_, program) => {
    const owner = Keypair.generate()
    const options = [undefined, undefined, program] as const
    const mint = await createMint(connection, payer, payer.publicKey, null, 6, ...options)
    const [from, to] = await Promise.all(
      [payer.publicKey, owner.publicKey].map((key) =>
        getOrCreateAssociatedTokenAccount(connection, payer, mint, key, false, ...options),
      ),
    )
    const [{ address: mine }, { address: theirs }] = [from!, to!]
    await mintTo(connection, payer, mint, mine, payer, 1_000n, [], undefined, program)
    await transfer(connection, payer, mine, theirs, payer, 300n, [], undefined, program)
    const balance = async (key: PublicKey) =>
      (await getAccount(connection, key, 'confirmed', program)).amount
    expect(await balance(mine)).toBe(700n)
    expect(await balance(theirs)).toBe(300n)
    expect((await getMint(connection, mint, 'confirmed', program)).supply).toBe(1_000n)
  })

  it.sequential('AnchorProvider sends and confirms, at its default commitment', async () => {
    const provider = new AnchorProvider(connection, new Wallet(payer))
    const to = Keypair.generate().publicKey
    const signature = await provider.sendAndConfirm!(new Transaction().add(pay(to, sol)))
    const status = await provider.connection.getSignatureStatus(signature)
    expect(status.value?.err).toBeNull()
    expect(await provider.connection.getBalance(to, 'processed')).toBe(sol)
  })

  it.sequential('a lookup table is created at the newest slot, extended and used', async () => {
    const recentSlot = await connection.getSlot('processed')
    const { publicKey } = payer
    const owned = { authority: publicKey, payer: publicKey }
    const [create, table] = AddressLookupTableProgram.createLookupTable({ ...owned, recentSlot })
    const to = Keypair.generate().publicKey
    const extend = { ...owned, lookupTable: table, addresses: [to, SystemProgram.programId] }
    await send(create, AddressLookupTableProgram.extendLookupTable(extend))
    const { value } = await connection.getAddressLookupTable(table)
    expect(value!.state.addresses.map(String)).toEqual([to, SystemProgram.programId].map(String))
    const extendedSlot = value!.state.lastExtendedSlot
    await until(async () => (await connection.getSlot()) > extendedSlot, 'the next slot')
    const latest = await connection.getLatestBlockhash()
    const message = new TransactionMessage({
      payerKey: publicKey,
      recentBlockhash: latest.blockhash,
      instructions: [pay(to, sol)],
    }).compileToV0Message([value!])
    expect(message.addressTableLookups).toHaveLength(1)
    const transaction = new VersionedTransaction(message)
    transaction.sign([payer])
    const signature = await connection.sendTransaction(transaction)
    const confirmed = await connection.confirmTransaction({ signature, ...latest })
    expect(confirmed.value.err).toBeNull()
    expect(await connection.getBalance(to)).toBe(sol)
  })

  it.sequential('a durable nonce is created, used once and advanced', async () => {
    const account = Keypair.generate()
    const { publicKey } = payer
    const create = SystemProgram.createNonceAccount({
      fromPubkey: publicKey,
      noncePubkey: account.publicKey,
      authorizedPubkey: publicKey,
      lamports: await connection.getMinimumBalanceForRentExemption(NONCE_ACCOUNT_LENGTH),
    })
    await sendAndConfirmTransaction(connection, new Transaction().add(create), [payer, account])
    const nonceOf = async () => (await connection.getNonce(account.publicKey))!.nonce
    const first = await nonceOf()
    const advance = { noncePubkey: account.publicKey, authorizedPubkey: publicKey }
    const nonceInstruction = SystemProgram.nonceAdvance(advance)
    const to = Keypair.generate().publicKey
    const used = new Transaction({
      feePayer: publicKey,
      nonceInfo: { nonce: first, nonceInstruction },
      minContextSlot: await connection.getSlot(),
    }).add(pay(to, sol))
    await sendAndConfirmTransaction(connection, used, [payer])
    expect(await connection.getBalance(to)).toBe(sol)
    const second = await nonceOf()
    expect(second).not.toBe(first)
    await expect(connection.sendRawTransaction(used.serialize())).rejects.toThrow()
    await send(SystemProgram.nonceAdvance(advance))
    expect(await nonceOf()).not.toBe(second)
  })

  it.sequential('a program is deployed, called, upgraded and called again', async () => {
    const elf = (await connection.getAccountInfo(memo))!.data
    expect(String(elf.subarray(1, 4))).toBe('ELF')
    const program = await deployProgram(connection, payer, elf)
    const info = await connection.getAccountInfo(program)
    expect([info!.executable, info!.owner.equals(upgradeableLoader)]).toEqual([true, true])
    const logsOf = async () => {
      const keys = [{ pubkey: payer.publicKey, isSigner: true, isWritable: false }]
      const data = Buffer.from('hello')
      const call = new TransactionInstruction({ programId: program, keys, data })
      const signature = await send(call)
      const options = { commitment: 'confirmed', maxSupportedTransactionVersion: 0 } as const
      return (await connection.getTransaction(signature, options))!.meta!.logMessages!.join('\n')
    }
    const nextSlot = async () => {
      const slot = await connection.getSlot()
      await until(async () => (await connection.getSlot()) > slot, 'the next slot')
    }
    await nextSlot()
    expect(await logsOf()).toContain('Program log: Signed by:')
    // Other code: a text that it logs.
    const changed = Buffer.from(elf)
    changed.write('Written by', changed.indexOf('Signed by:'))
    await upgradeProgram(connection, payer, program, changed)
    await nextSlot()
    expect(await logsOf()).toContain('Program log: Written by')
  })
}
