// What it costs to know whether a transaction's tip is good. Thread: main of the bench process.
// Beside it, kit's own decoders with the same question asked of what they give.
import {
  address,
  getAddressEncoder,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
} from '@solana/kit'
import { TransactionLayout } from '../../src/chain/solana/transaction.ts'
import { minimumTipLamports, TipCheck } from '../../src/products/tpu/tip.ts'
import { TipAccounts } from '../../src/products/tpu/tip-accounts.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { singleFunction } from '../lib/single-function.ts'
import { signedTransactions, tipAccounts } from '../lib/tipped-transactions.ts'

const count = 128
const tipped = signedTransactions(count, { tip: true })
const untipped = signedTransactions(count, { tip: false })
const accounts = new TipAccounts(tipAccounts)
const layout = new TransactionLayout()
const check = new TipCheck()

const withTip = 'decode and tip check, good tip'
const withoutTip = 'decode and tip check, no tip'

export const bench: Bench = {
  name: 'tip-check',
  question: 'How many transactions can be decoded and asked for their tip per second?',
  cores: 1,
  baseline: overAll("kit's decoders, same question", tipped, hasTipByKit),
  candidates: [overAll(withTip, tipped, hasTip), overAll(withoutTip, untipped, hasTip)],
  // 1 us a transaction.
  goals: [
    { contender: withTip, figure: 'opsPerSecond', atLeast: 1_000_000 },
    { contender: withoutTip, figure: 'opsPerSecond', atLeast: 1_000_000 },
  ],
  verify({ evidence }, contender) {
    const { found, asked } = evidence as { found: number; asked: number }
    if (asked === 0) return 'nothing was asked'
    const expected = contender === withoutTip ? 0 : asked
    return found === expected ? undefined : `found ${found} tips in ${asked}`
  },
}

function hasTip(bytes: Uint8Array): boolean {
  return layout.decode(bytes) === 'ok' && check.look(layout, bytes, accounts)
}

const transactionDecoder = getTransactionDecoder()
const messageDecoder = getCompiledTransactionMessageDecoder()
const addresses = new Set<string>(tipAccounts)
const system = '11111111111111111111111111111111'
// Made once: the first use of kit's address codec sets up its tables.
getAddressEncoder().encode(address(system))

function hasTipByKit(bytes: Uint8Array): boolean {
  const { messageBytes } = transactionDecoder.decode(bytes)
  const message = messageDecoder.decode(messageBytes)
  // Reason for the cast: legacy and v0 alike have these; newer versions are not made here.
  const { staticAccounts, instructions } = message as unknown as {
    staticAccounts: readonly string[]
    instructions: readonly {
      programAddressIndex: number
      accountIndices?: readonly number[]
      data?: Uint8Array
    }[]
  }
  return instructions.some(({ programAddressIndex, accountIndices, data }) => {
    if (staticAccounts[programAddressIndex] !== system || data === undefined) return false
    const view = new DataView(data.buffer, data.byteOffset, data.length)
    if (data.length < 12 || view.getUint32(0, true) !== 2) return false
    const to = staticAccounts[accountIndices?.[1] ?? -1]
    return to !== undefined && addresses.has(to) && view.getBigUint64(4, true) >= minimumTipLamports
  })
}

function overAll(
  name: string,
  transactions: readonly Uint8Array[],
  ask: (bytes: Uint8Array) => boolean,
): Contender {
  let asked = 0
  let found = 0
  return singleFunction({
    name,
    callsEach: transactions.length,
    call() {
      for (const bytes of transactions) if (ask(bytes)) found++
      asked += transactions.length
    },
    evidence() {
      const counted = { asked, found }
      asked = found = 0
      return counted
    },
  })
}
