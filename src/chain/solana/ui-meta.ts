// Formats the outcome of a transaction (`meta`) and a block's rewards as JSON-RPC does.
import { objectText } from '../../base/json-text.ts'
import type {
  InstructionContent,
  MetaContent,
  RewardContent,
  TokenBalanceContent,
  TransactionContent,
} from './geyser-content.ts'
import { keyText } from './key-text.ts'
import { uiTokenAmount } from './token-amount.ts'
import { decodeTransactionError } from './transaction-error.ts'

/** How objects are written: sorted by name in answers, in a type's order in notifications. */
interface Written {
  readonly isSorted: boolean
}

type WriteInner = (instruction: InstructionContent & { readonly stackHeight?: number }) => string

/**
 * The full meta. Rewards are null unless requested, as a validator does; `jsonParsed` has the
 * loaded addresses among the keys of the message only.
 */
export function metaText(
  { meta }: TransactionContent,
  view: { readonly showRewards: boolean; readonly encoding: string } & Written,
  writeInner: WriteInner,
): string {
  const members = [
    ...headMembers(meta),
    `"innerInstructions":${innersText(meta.innerInstructions, writeInner)}`,
    `"logMessages":${meta.logMessages === null ? 'null' : JSON.stringify(meta.logMessages)}`,
    ...balanceMembers(meta, view),
    `"rewards":${view.showRewards ? rewardsText(meta.rewards, view) : 'null'}`,
  ]
  if (view.encoding !== 'jsonParsed') members.push(`"loadedAddresses":${loadedText(meta, view)}`)
  if (meta.returnData !== null)
    members.push(`"returnData":${returnDataText(meta.returnData, view)}`)
  if (meta.computeUnitsConsumed !== null)
    members.push(`"computeUnitsConsumed":${meta.computeUnitsConsumed}`)
  if (meta.costUnits !== null) members.push(`"costUnits":${meta.costUnits}`)
  return objectText(members, view.isSorted)
}

/** The addresses loaded from lookup tables. */
export function loadedText(
  meta: Pick<MetaContent, 'loadedReadonlyAddresses' | 'loadedWritableAddresses'>,
  { isSorted }: Written,
): string {
  const list = (keys: readonly Uint8Array[]) => `[${keys.map((key) => `"${keyText(key)}"`)}]`
  const writable = `"writable":${list(meta.loadedWritableAddresses)}`
  return objectText([writable, `"readonly":${list(meta.loadedReadonlyAddresses)}`], isSorted)
}

export function returnDataText(returned: MetaContent['returnData'], { isSorted }: Written): string {
  if (returned === null) return 'null'
  const data = Buffer.from(returned.data).toString('base64')
  const programId = `"programId":"${keyText(returned.programId)}"`
  return objectText([programId, `"data":["${data}","base64"]`], isSorted)
}

/** The meta of transaction details `accounts`. */
export function simpleMetaText({ meta }: TransactionContent, written: Written): string {
  return objectText([...headMembers(meta), ...balanceMembers(meta, written)], written.isSorted)
}

export function rewardsText(rewards: readonly RewardContent[], written: Written): string {
  return `[${rewards.map((reward) => rewardText(reward, written)).join(',')}]`
}

/** The TransactionError as JSON; null for success. */
export function errText(err: Uint8Array | null): string {
  return err === null ? 'null' : JSON.stringify(decodeTransactionError(err) ?? 'UnknownError')
}

function headMembers(meta: MetaContent): string[] {
  const err = errText(meta.err)
  return [
    `"err":${err}`,
    `"status":${meta.err === null ? '{"Ok":null}' : `{"Err":${err}}`}`,
    `"fee":${meta.fee}`,
    `"preBalances":[${meta.preBalances.join(',')}]`,
    `"postBalances":[${meta.postBalances.join(',')}]`,
  ]
}

function innersText(inner: MetaContent['innerInstructions'], write: WriteInner): string {
  if (inner === null) return 'null'
  const groups = inner.map(
    ({ index, instructions }) =>
      `{"index":${index},"instructions":[${instructions.map(write).join(',')}]}`,
  )
  return `[${groups.join(',')}]`
}

function balanceMembers(
  { preTokenBalances, postTokenBalances }: MetaContent,
  written: Written,
): string[] {
  const list = (balances: readonly TokenBalanceContent[]) =>
    `[${balances.map((balance) => tokenBalanceText(balance, written)).join(',')}]`
  return [
    `"preTokenBalances":${list(preTokenBalances)}`,
    `"postTokenBalances":${list(postTokenBalances)}`,
  ]
}

/** Stored outcomes have no zero among their floats: it is null there, and only there. */
export function tokenBalanceText(balance: TokenBalanceContent, { isSorted }: Written): string {
  const { accountIndex, mint, owner, programId } = balance
  const amount = uiTokenAmount(BigInt(balance.amount), balance.decimals)
  const shown = { ...amount, uiAmount: amount.uiAmount === 0 ? null : amount.uiAmount }
  const members = [
    `"accountIndex":${accountIndex}`,
    `"mint":${JSON.stringify(mint)}`,
    `"uiTokenAmount":${JSON.stringify(shown)}`,
    `"owner":${JSON.stringify(owner)}`,
    `"programId":${JSON.stringify(programId)}`,
  ]
  return objectText(members, isSorted)
}

const rewardTypes = [null, 'Fee', 'Rent', 'Staking', 'Voting', 'DeactivatedStake'] as const

function rewardText(reward: RewardContent, { isSorted }: Written): string {
  const { commission, commissionBps, rewardType: type } = reward
  const members = [
    `"pubkey":${JSON.stringify(reward.pubkey)}`,
    `"lamports":${reward.lamports}`,
    `"postBalance":${reward.postBalance}`,
    // A type that has no name here is shown by its number.
    `"rewardType":${JSON.stringify(rewardTypes[type] === undefined ? type : rewardTypes[type])}`,
    `"commission":${commission === '' ? 'null' : commission}`,
  ]
  if (commissionBps !== '') members.push(`"commissionBps":${commissionBps}`)
  return objectText(members, isSorted)
}
