import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { VersionedTransaction } from '@solana/web3.js'
import { describe, expect, test } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import type { TransactionContent } from '../../../../src/chain/solana/geyser-decode.ts'
import { encodeTransaction } from '../../../../src/chain/solana/geyser-transaction.ts'
import { programs } from '../../../../src/chain/solana/programs.ts'
import { TransactionLayout } from '../../../../src/chain/solana/transaction.ts'
import { messageContent, signaturesOf } from '../../../../src/devnode/message-content.ts'
import { noTransaction, packAccounts, type SlotParcel } from '../../../../src/indexer/engine.ts'
import { addSlotRows, RowBatches } from '../../../../src/indexer/rows/delivery-rows.ts'
import { rowsOf, slowTransactionRows } from '../../../testkit/index-rows.ts'
import { realData } from '../../../testkit/real-data.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const key = (fill: number) => new Uint8Array(32).fill(fill)
const text = (fill: number) => encodeBase58(key(fill))

function slotOf(contents: readonly TransactionContent[], more: Partial<SlotParcel> = {}) {
  const rows = new RowBatches()
  const transactions = contents.map((content) => encodeTransaction(7, content).info)
  const accounts = new Uint8Array(0)
  addSlotRows(
    { slot: 7, blockTime: 1_700_000_000, block: null, transactions, accounts, ...more },
    rows,
  )
  return rowsOf(rows.take())
}

/** A transaction with these instructions over the keys 1 to 9, the program's key last but one. */
function tokenTransaction(
  program: Uint8Array,
  instructions: readonly { accounts: number[]; data: number[] }[],
  meta: Partial<TransactionContent['meta']> = {},
): TransactionContent {
  const base = new SyntheticSolana().transaction(3)
  const accountKeys: Uint8Array[] = [1, 2, 3, 4, 5, 6].map(key)
  accountKeys.push(program)
  return {
    ...base,
    message: {
      ...base.message,
      accountKeys,
      versioned: false,
      addressTableLookups: [],
      instructions: instructions.map(({ accounts, data }) => ({
        programIdIndex: 6,
        accounts: Uint8Array.from(accounts),
        data: Uint8Array.from(data),
      })),
    },
    meta: {
      ...base.meta,
      err: null,
      innerInstructions: [],
      loadedWritableAddresses: [],
      preTokenBalances: [],
      postTokenBalances: [],
      ...meta,
    },
  }
}

function u64(value: bigint): number[] {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return [...bytes]
}

const max = 2n ** 64n - 1n

describe('rows of a slot', () => {
  test('match the transactions and instructions of a slow decoder', () => {
    for (const seed of [1, 2, 3]) {
      const solana = new SyntheticSolana({ seed })
      const contents = Array.from({ length: 60 }, (_, index) => solana.transaction(index))
      const { transactions, instructions } = slotOf(contents)
      const slow = contents.map((content) => slowTransactionRows(content, 7, 1_700_000_000))
      expect(transactions).toEqual(slow.map((one) => one.transaction))
      expect(instructions).toEqual(slow.flatMap((one) => one.instructions))
    }
  })

  test('have the version of a transaction with a config', () => {
    const base = new SyntheticSolana({ seed: 1 }).transaction(0)
    const config = {
      priorityFee: null,
      computeUnitLimit: null,
      loadedAccountsDataSizeLimit: null,
      heapSize: null,
    }
    const message = { ...base.message, versioned: true, addressTableLookups: [], config }
    expect(slotOf([{ ...base, message }]).transactions).toMatchObject([{ version: 1 }])
  })

  test('have the block once, with the parcel that contains it', () => {
    const block = { parentSlot: 6, blockhash: 'hash', height: 5, txCount: 2 }
    expect(slotOf([], { block }).blocks).toEqual([
      {
        slot: 7,
        parent_slot: 6,
        blockhash: 'hash',
        height: 5,
        block_time: 1_700_000_000,
        tx_count: 2,
      },
    ])
    expect(slotOf([]).blocks).toBeUndefined()
  })

  test('have account writes with the largest possible numbers', () => {
    const accounts = packAccounts([
      {
        pubkey: key(1),
        owner: key(2),
        lamports: max,
        writeVersion: max,
        dataBytes: 2 ** 32 - 1,
        index: 4,
      },
      {
        pubkey: key(3),
        owner: key(0),
        lamports: 0n,
        writeVersion: 0n,
        dataBytes: 0,
        index: noTransaction,
      },
    ])
    expect(slotOf([], { accounts }).account_updates).toEqual([
      {
        slot: 7,
        idx: 4,
        pubkey: text(1),
        owner: text(2),
        lamports: max,
        data_len: 2 ** 32 - 1,
        write_version: max,
        block_time: 1_700_000_000,
      },
      {
        slot: 7,
        idx: noTransaction,
        pubkey: text(3),
        owner: text(0),
        lamports: 0n,
        data_len: 0,
        write_version: 0n,
        block_time: 1_700_000_000,
      },
    ])
  })

  test('are built from invalid transaction bytes without throwing', () => {
    const rows = new RowBatches()
    const noise = Uint8Array.from({ length: 300 }, (_, index) => (index * 37) % 256)
    const good = encodeTransaction(7, new SyntheticSolana().transaction(0)).info
    const cuts = Array.from({ length: good.length }, (_, length) => good.subarray(0, length))
    const transactions = [noise, ...cuts]
    addSlotRows({ slot: 7, blockTime: 0, block: null, transactions, accounts: noise }, rows)
    const found = rowsOf(rows.take())
    expect(found.transactions).toHaveLength(transactions.length)
    // A time that is not known is NULL, never 1970.
    expect(found.instructions!.every(({ block_time }) => block_time === null)).toBe(true)
  })
})

const recorded = realData('transactions')
describe.skipIf(recorded.isMissing)(recorded.title('rows of recorded transactions'), () => {
  test('have keys, instructions and data as web3.js decodes them', () => {
    const files = readdirSync(recorded.path).filter((name) => name.endsWith('.bin'))
    expect(files.length).toBeGreaterThan(3)
    for (const [index, name] of files.entries()) {
      const bytes = readFileSync(join(recorded.path, name))
      const theirs = VersionedTransaction.deserialize(bytes)
      const { staticAccountKeys, compiledInstructions, version } = theirs.message
      const layout = new TransactionLayout()
      layout.decode(bytes)
      // Any keys serve as those of lookup tables: both sides see the same.
      const loaded = (count: number, fill: number) => Array.from({ length: count }, () => key(fill))
      const base = new SyntheticSolana().transaction(index)
      const content: TransactionContent = {
        ...base,
        index,
        signatures: signaturesOf(layout, bytes),
        message: messageContent(layout, bytes),
        meta: {
          ...base.meta,
          innerInstructions: [],
          loadedWritableAddresses: loaded(layout.loadedWritable, 1),
          loadedReadonlyAddresses: loaded(layout.loadedReadonly, 2),
        },
      }
      const keys = [
        ...staticAccountKeys.map((one) => one.toBase58()),
        ...Array(layout.loadedWritable).fill(text(1)),
        ...Array(layout.loadedReadonly).fill(text(2)),
      ]
      const { transactions, instructions = [] } = slotOf([content])
      expect(transactions, name).toMatchObject([
        {
          signature: encodeBase58(theirs.signatures[0]!),
          fee_payer: keys[0],
          version: version === 'legacy' ? -1 : version,
        },
      ])
      expect(
        instructions.map(({ program, accounts, data }) => ({ program, accounts, data })),
        name,
      ).toEqual(
        compiledInstructions.map((one) => ({
          program: keys[one.programIdIndex],
          accounts: one.accountKeyIndexes.map((at) => keys[at]),
          data: encodeBase58(one.data),
        })),
      )
    }
  })
})

describe('token transfers', () => {
  const balance = {
    accountIndex: 1,
    mint: 'mint',
    owner: '',
    programId: '',
    amount: '1',
    decimals: 9,
  }

  test('take mint and decimals of a plain transfer from the balances', () => {
    const plain = [{ accounts: [1, 2, 3], data: [3, ...u64(max)] }]
    const found = { mint: 'mint', decimals: 9 }
    const bySource = tokenTransaction(programs.token, plain, { preTokenBalances: [balance] })
    const byDestination = tokenTransaction(programs.token2022, plain, {
      postTokenBalances: [{ ...balance, accountIndex: 2 }],
    })
    const unknown = tokenTransaction(programs.token, plain)
    const rows = [bySource, byDestination, unknown].map((one) => slotOf([one]).token_transfers![0])
    const common = { source: text(2), destination: text(3), authority: text(4), amount: max }
    expect(rows[0]).toMatchObject({ ...common, ...found, idx: 3, ix: 0, inner_ix: -1 })
    expect(rows[1]).toMatchObject({ ...common, ...found })
    expect(rows[2]).toMatchObject({ ...common, mint: '', decimals: 0 })
  })

  test('take mint and decimals from a checked transfer, with a fee or without', () => {
    const accounts = [1, 2, 3, 4, 5]
    const checked = { accounts, data: [12, ...u64(77n), 6] }
    const withFee = { accounts, data: [26, 1, ...u64(78n), 5, ...u64(2n)] }
    const { token_transfers } = slotOf([tokenTransaction(programs.token2022, [checked, withFee])])
    const common = { source: text(2), mint: text(3), destination: text(4), authority: text(5) }
    expect(token_transfers).toMatchObject([
      { ...common, ix: 0, amount: 77n, decimals: 6 },
      { ...common, ix: 1, amount: 78n, decimals: 5 },
    ])
  })

  test('are found among inner instructions, with their index', () => {
    const inner = {
      programIdIndex: 6,
      accounts: Uint8Array.of(1, 2, 3),
      data: Uint8Array.from([3, ...u64(5n)]),
    }
    const noise = { ...inner, data: Uint8Array.of(9) }
    const content = tokenTransaction(programs.token, [{ accounts: [], data: [255] }], {
      innerInstructions: [{ index: 0, instructions: [noise, inner] }],
      preTokenBalances: [balance],
    })
    expect(slotOf([content]).token_transfers).toMatchObject([{ ix: 0, inner_ix: 1, amount: 5n }])
  })

  test('are absent for a failed transaction, another program, or a truncated instruction', () => {
    const whole = { accounts: [1, 2, 3], data: [3, ...u64(1n)] }
    const failed = tokenTransaction(programs.token, [whole], { err: Uint8Array.of(0, 0, 0, 0) })
    const other = tokenTransaction(programs.system, [whole])
    const short = tokenTransaction(programs.token, [
      { accounts: [1, 2], data: whole.data },
      { accounts: whole.accounts, data: whole.data.slice(0, 8) },
      { accounts: [1, 2, 3], data: [12, ...u64(1n), 6] },
      { accounts: [1, 2, 3, 4], data: [12, ...u64(1n)] },
      // SPL Token has no extensions.
      { accounts: [1, 2, 3, 4], data: [26, 1, ...u64(1n), 5, ...u64(2n)] },
      { accounts: [], data: [] },
    ])
    expect(slotOf([failed, other, short]).token_transfers).toBeUndefined()
  })
})
