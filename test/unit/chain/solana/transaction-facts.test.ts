import { describe, expect, it } from 'vitest'
import { BackWriter } from '../../../../src/base/protobuf.ts'
import { TransactionFacts } from '../../../../src/chain/solana/transaction-facts.ts'

describe('the facts of a transaction', () => {
  it('have its loaded keys, however many a node sends', () => {
    const count = 150_000
    const writer = new BackWriter()
    const meta = writer.mark
    for (let key = 0; key < count; key++) writer.wrap(12, writer.mark)
    writer.wrap(4, meta)
    expect(new TransactionFacts(writer.take()).keys).toHaveLength(count)
  })
})
