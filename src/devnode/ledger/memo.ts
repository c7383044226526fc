// The memos of a transaction as getSignaturesForAddress shows them.
import { isSameKey } from '../../chain/solana/keys.ts'
import { programs } from '../../chain/solana/programs.ts'
import { TransactionLayout } from '../../chain/solana/transaction.ts'

const layout = new TransactionLayout({ v1: true })

/** `[5] hello; [2] hi`, lengths in bytes; null without a memo. */
export function memoOf(bytes: Uint8Array): string | null {
  if (layout.decode(bytes) !== 'ok') return null
  const memos: string[] = []
  for (let index = 0; index < layout.instructionCount; index++) {
    const at = layout.keysAt + layout.programIndex[index]! * 32
    const program = bytes.subarray(at, at + 32)
    if (!isSameKey(program, programs.memo) && !isSameKey(program, programs.memoV1)) continue
    const from = layout.dataAt[index]!
    const length = layout.dataLength[index]!
    memos.push(`[${length}] ${Buffer.from(bytes.subarray(from, from + length)).toString()}`)
  }
  return memos.length === 0 ? null : memos.join('; ')
}
