// agave's own transaction encoder, which yellowstone's client carries as WebAssembly, as an oracle:
// applied to what geyser sends of a transaction, it gives what getTransaction answers.
import { createRequire } from 'node:module'
import {
  createAssociatedTokenAccountInstruction,
  createMint,
  getAssociatedTokenAddressSync,
} from '@solana/spl-token'
import {
  AddressLookupTableProgram,
  Connection,
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  Transaction,
  type TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { until } from '../testkit/until.ts'

// biome-ignore-start lint/suspicious/noExplicitAny: the client's generated types add nothing here.
const { default: Yellowstone, txEncode } = createRequire(import.meta.url)(
  '@triton-one/yellowstone-grpc',
) as any

const keys = { accountInclude: [], accountExclude: [], accountRequired: [] }
const request = {
  accounts: {},
  slots: {},
  transactions: { all: keys },
  transactionsStatus: {},
  blocks: {},
  blocksMeta: {},
  entry: {},
  accountsDataSlice: [],
  commitment: 1,
}
/** Those of the traffic besides our own: transfers, token transfers, memos. */
const seenMin = 40

let devnode: Devnode
let connection: Connection
const payer = Keypair.generate()
/** By signature. */
const messages = new Map<string, any>()

beforeAll(async () => {
  devnode = await startDevnode({ flags: ['--traffic=20'] })
  const wsEndpoint = devnode.url('websocket')
  connection = new Connection(devnode.url('rpc'), { commitment: 'confirmed', wsEndpoint })
  const client = new Yellowstone(devnode.url('grpc'), undefined, {})
  const stream = await client.subscribe()
  stream.on('error', () => {})
  stream.on('data', ({ transaction }: any) => {
    const info = transaction?.transaction
    if (info !== undefined) messages.set(encodeBase58(info.signature), info)
  })
  stream.write(request)
  await until(() => messages.size > 0, 'the traffic')
  await landed(await connection.requestAirdrop(payer.publicKey, 100 * LAMPORTS_PER_SOL))
})
afterAll(() => devnode?.dispose())

/** Resolves when geyser has sent it as confirmed. */
async function landed(signature: string): Promise<string> {
  await until(() => messages.has(signature), 'the transaction')
  return signature
}

async function send(...instructions: TransactionInstruction[]): Promise<string> {
  const { blockhash } = await connection.getLatestBlockhash()
  const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash })
  transaction.add(...instructions).sign(payer)
  return landed(
    await connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true }),
  )
}

function transfer(lamports: number, toPubkey = PublicKey.unique()): TransactionInstruction {
  return SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports })
}

/** Version 0 with an account from a table. */
async function sendWithTable(): Promise<string> {
  const [create, address] = AddressLookupTableProgram.createLookupTable({
    authority: payer.publicKey,
    payer: payer.publicKey,
    recentSlot: await connection.getSlot('confirmed'),
  })
  const target = PublicKey.unique()
  const extend = AddressLookupTableProgram.extendLookupTable({
    lookupTable: address,
    authority: payer.publicKey,
    payer: payer.publicKey,
    addresses: [target],
  })
  await send(create, extend)
  const slot = await connection.getSlot('processed')
  await until(async () => (await connection.getSlot('processed')) > slot, 'the next slot')
  const { value: table } = await connection.getAddressLookupTable(address)
  const message = new TransactionMessage({
    payerKey: payer.publicKey,
    recentBlockhash: (await connection.getLatestBlockhash()).blockhash,
    instructions: [transfer(LAMPORTS_PER_SOL, target)],
  }).compileToV0Message([table!])
  const transaction = new VersionedTransaction(message)
  transaction.sign([payer])
  return landed(await connection.sendTransaction(transaction, { skipPreflight: true }))
}

/** A program that calls others: inner instructions, token balances. */
async function sendNested(): Promise<string> {
  const mint = await createMint(connection, payer, payer.publicKey, null, 6)
  const account = getAssociatedTokenAddressSync(mint, payer.publicKey)
  const owner = payer.publicKey
  return send(createAssociatedTokenAccountInstruction(owner, account, owner, mint))
}

async function getTransaction(signature: string, encoding: string): Promise<any> {
  const params = [
    signature,
    { encoding, commitment: 'confirmed', maxSupportedTransactionVersion: 0 },
  ]
  const response = await fetch(devnode.url('rpc'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getTransaction', params }),
  })
  const { result } = (await response.json()) as any
  return result
}

/** Without what agave adds since that encoder: the cost, and the height of top-level instructions. */
function olderOf({ transaction, meta, version }: any): any {
  const { costUnits, ...older } = meta
  expect(costUnits).toBeGreaterThan(0)
  if (Array.isArray(transaction)) return { transaction, meta: older, version }
  const { instructions, ...message } = transaction.message
  const lower = instructions.map(({ stackHeight, ...instruction }: any) => {
    expect(stackHeight).toBe(1)
    return { ...instruction, stackHeight: null }
  })
  const shown = { ...transaction, message: { ...message, instructions: lower } }
  return { transaction: shown, meta: older, version }
}

/** A validator stores token balances without an amount of 0, and shows null for it. */
function asStored(encoded: any): any {
  for (const balances of [encoded.meta.preTokenBalances, encoded.meta.postTokenBalances])
    for (const { uiTokenAmount } of balances)
      if (uiTokenAmount.uiAmount === 0) uiTokenAmount.uiAmount = null
  return encoded
}

test('getTransaction answers what agave encodes, in every encoding', async () => {
  const own = {
    legacy: await send(transfer(LAMPORTS_PER_SOL)),
    failed: await send(transfer(LAMPORTS_PER_SOL), transfer(1_000 * LAMPORTS_PER_SOL)),
    table: await sendWithTable(),
    nested: await sendNested(),
  }
  await until(() => messages.size >= seenMin, 'the traffic')
  // What makes each of them worth comparing.
  const metaOf = (signature: string) => getTransaction(signature, 'json')
  expect((await metaOf(own.legacy)).version).toBe('legacy')
  expect((await metaOf(own.failed)).meta.err).not.toBeNull()
  expect((await metaOf(own.table)).meta.loadedAddresses.writable).toHaveLength(1)
  expect((await metaOf(own.nested)).meta.innerInstructions).toHaveLength(1)
  expect((await metaOf(own.nested)).meta.postTokenBalances).toHaveLength(1)
  const { Json, JsonParsed, Base64, Base58 } = txEncode.encoding
  const encodings = { json: Json, jsonParsed: JsonParsed, base64: Base64, base58: Base58 }
  // Those until now: while these are compared the traffic goes on.
  for (const [signature, message] of [...messages])
    for (const [name, encoding] of Object.entries(encodings)) {
      const expected = asStored(txEncode.encode(message, encoding, 0, true))
      const shown = olderOf(await getTransaction(signature, name))
      expect(shown, `${name} ${signature}`).toEqual(expected)
    }
})
// biome-ignore-end lint/suspicious/noExplicitAny: see above.
