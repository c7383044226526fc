// The profile of a transaction: what it would change and consume, as surfpool shows it.
// Thread: main of the devnode. Nothing is kept.
// An instruction's profile is the difference of the transactions that end with it and before it.
import { Commitment } from '../../base/commitment.ts'
import { accept, type Outcome } from '../../base/errors.ts'
import { jsonText, ReadyJson } from '../../base/json-text.ts'
import { keyText } from '../../chain/solana/key-text.ts'
import { isSameKey } from '../../chain/solana/keys.ts'
import { TransactionLayout } from '../../chain/solana/transaction.ts'
import type { AccountEncoding } from '../../chain/solana/ui-account.ts'
import { accountText } from '../../chain/solana-rpc/encode-account.ts'
import type { LedgerAccount } from '../ledger/ledger.ts'
import type { Simulated } from '../simulated.ts'
import { transactionErrorText } from '../transaction-error-text.ts'
import type { RpcNode } from './rpc-node.ts'
import type { WireTransaction } from './wire-transaction.ts'

const layout = new TransactionLayout({ v1: true })
/** Whose count is one byte. */
const instructionsMax = 127
const base64 = { encoding: 'base64', dataSlice: null } as const

/** An account at a moment; null when it does not exist. */
type ReadLedger = (pubkey: Uint8Array) => LedgerAccount | null

/** The state after a number of instructions, and what they took. */
interface Stage {
  readonly read: ReadLedger
  readonly units: bigint
  readonly logCount: number
}

/** `key`: the id of the profile. Refused `invalid` for bytes that the chain cannot read. */
export function profileText(
  { chain, ledger }: RpcNode,
  wire: WireTransaction,
  view: { readonly encoding: AccountEncoding; readonly key: string; readonly isDeep: boolean },
): Outcome<string> {
  const options = { isBlockhashReplaced: true, mustVerify: false }
  const outcome = chain.simulate(wire.bytes, options)
  if (!outcome.ok) return outcome
  const simulated = outcome.value
  layout.decode(wire.bytes)
  const { loadedWritableAddresses, loadedReadonlyAddresses } = simulated
  const keys = [...wire.keys, ...loadedWritableAddresses, ...loadedReadonlyAddresses]
  const before: ReadLedger = (pubkey) => ledger.account(pubkey, Commitment.processed)
  const first: Stage = { read: before, units: 0n, logCount: 0 }
  const { encoding, key } = view
  const profile = (from: Stage, run: Simulated, indexes: Iterable<number>) =>
    difference(from, run, { keys, indexes, encoding })
  const prefixes = view.isDeep ? prefixesOf(wire.bytes) : []
  const instructions: unknown[] = []
  let stage = first
  for (const { bytes, indexes } of prefixes) {
    const part = chain.simulate(bytes, options)
    if (!part.ok) return part
    instructions.push(profile(stage, part.value, indexes))
    stage = stageAfter(stage, part.value)
  }
  const fixed = [...keys.keys()].filter((index) => !layout.isWritable(index))
  const shownFixed = fixed.map((index) => [keyText(keys[index]!), before(keys[index]!)] as const)
  const readonly = shownFixed.filter(([, account]) => account !== null)
  return accept(
    jsonText({
      slot: simulated.slot,
      key,
      instructionProfiles: instructions.length === 0 ? undefined : instructions,
      transactionProfile: profile(first, simulated, keys.keys()),
      readonlyAccountStates: Object.fromEntries(
        readonly.map(([name, account]) => [name, shown(account, before, encoding)]),
      ),
    }),
  )
}

/** The transactions of the first instruction, of the first two, and so on. */
function prefixesOf(bytes: Uint8Array): { bytes: Uint8Array; indexes: Set<number> }[] {
  const { instructionCount: count, version, blockhashAt, dataAt, dataLength } = layout
  if (version === 1 || count > instructionsMax) return []
  const head = bytes.subarray(0, blockhashAt + 32)
  const endOf = (index: number) => dataAt[index]! + dataLength[index]!
  const tail = bytes.subarray(endOf(count - 1))
  return Array.from({ length: count }, (_, last) => {
    const body = bytes.subarray(blockhashAt + 33, endOf(last))
    const accountsAt = layout.accountsAt[last]!
    const accounts = bytes.subarray(accountsAt, accountsAt + layout.accountsCount[last]!)
    return {
      bytes: Buffer.concat([head, Uint8Array.of(last + 1), body, tail]),
      indexes: new Set([...accounts, layout.programIndex[last]!]),
    }
  })
}

function stageAfter(from: Stage, { err, account, unitsConsumed, logs }: Simulated): Stage {
  return { read: err === null ? account : from.read, units: unitsConsumed, logCount: logs.length }
}

function difference(
  from: Stage,
  run: Simulated,
  of: {
    readonly keys: readonly Uint8Array[]
    readonly indexes: Iterable<number>
    readonly encoding: AccountEncoding
  },
) {
  const to = stageAfter(from, run)
  const accountStates: Record<string, unknown> = {}
  for (const index of of.indexes) {
    const pubkey = of.keys[index]!
    accountStates[keyText(pubkey)] = layout.isWritable(index)
      ? { type: 'writable', accountChange: changeOf(pubkey, [from.read, to.read], of.encoding) }
      : { type: 'readonly' }
  }
  return {
    accountStates,
    computeUnitsConsumed: to.units - from.units,
    logMessages: run.logs.slice(from.logCount),
    errorMessage: run.err === null ? null : transactionErrorText(run.err),
  }
}

function changeOf(
  pubkey: Uint8Array,
  [before, after]: readonly [ReadLedger, ReadLedger],
  encoding: AccountEncoding,
) {
  const [old, fresh] = [before(pubkey), after(pubkey)]
  const was = shown(old, before, encoding)
  if (isUnchanged(old, fresh)) return { type: 'unchanged', data: was }
  const is = shown(fresh, after, encoding)
  if (old === null) return { type: 'create', data: is }
  return fresh === null ? { type: 'delete', data: was } : { type: 'update', data: [was, is] }
}

function shown(account: LedgerAccount | null, read: ReadLedger, encoding: AccountEncoding) {
  if (account === null) return null
  const text = accountText(account, { encoding, dataSlice: null }, read)
  return new ReadyJson(text ?? accountText(account, base64, read)!)
}

function isUnchanged(a: LedgerAccount | null, b: LedgerAccount | null): boolean {
  if (a === null || b === null) return a === b
  if (a.lamports !== b.lamports || a.executable !== b.executable) return false
  return isSameKey(a.owner, b.owner) && isSameKey(a.data, b.data)
}
