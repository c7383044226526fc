// Records of the history: the outcome read back, also from records without the newest fields.
import { expect, test } from 'vitest'
import { Keypair } from '../../../src/chain/solana/keypair.ts'
import { buildTransaction, memoInstruction } from '../../../src/devnode/build.ts'
import { packTransaction, StoredTransaction } from '../../../src/devnode/ledger/ledger.ts'
import { SyntheticSolana } from '../../testkit/synthetic-solana.ts'

const bytes = buildTransaction({
  signers: [Keypair.derive(new Uint8Array(32), 'from')],
  blockhash: new Uint8Array(32),
  instructions: [memoInstruction('x')],
})
const content = new SyntheticSolana().transaction(0)
const place = { slot: 1, index: 0, blockTime: 0 }
/** Cost option and value, then whether it ran. */
const newestBytes = 1 + 8 + 1

function metaOf(record: Buffer) {
  return new StoredTransaction(record, place).read().meta
}

test('a record keeps the cost, and that a transaction never ran', () => {
  expect(metaOf(packTransaction(bytes, content))).toMatchObject({
    costUnits: content.meta.costUnits,
    logMessages: content.meta.logMessages,
  })
  const meta = { ...content.meta, innerInstructions: null, logMessages: null, costUnits: null }
  expect(metaOf(packTransaction(bytes, { ...content, meta }))).toMatchObject({
    innerInstructions: null,
    logMessages: null,
    costUnits: null,
  })
})

test('a record that ends before the cost is read', () => {
  const record = packTransaction(bytes, content).subarray(0, -newestBytes)
  expect(metaOf(record)).toMatchObject({
    computeUnitsConsumed: content.meta.computeUnitsConsumed,
    costUnits: null,
    logMessages: content.meta.logMessages,
  })
})
