// Formats the outcome of a transaction (`meta`) and a block's rewards as JSON-RPC does.
// Thread: any (pure).
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

type WriteInner = (instruction: InstructionContent & { readonly stackHeight?: number }) => string

/**
 * The full meta. Rewards are null unless requested, as a validator does; `jsonParsed` has the
 * loaded addresses among the keys of the message only.
 */
export function metaText(
  { meta }: TransactionContent,
  { showRewards, encoding }: { readonly showRewards: boolean; readonly encoding: string },
  writeInner: WriteInner,
): string {
  const members = [
    headText(meta),
    `"innerInstructions":${innersText(meta.innerInstructions, writeInner)}`,
    `"logMessages":${meta.logMessages === null ? 'null' : JSON.stringify(meta.logMessages)}`,
    balancesText(meta),
    `"rewards":${showRewards ? rewardsText(meta.rewards) : 'null'}`,
  ]
  if (encoding !== 'jsonParsed') members.push(`"loadedAddresses":${loadedText(meta)}`)
  if (meta.returnData !== null) members.push(`"returnData":${returnDataText(meta.returnData)}`)
  if (meta.computeUnitsConsumed !== null)
    members.push(`"computeUnitsConsumed":${meta.computeUnitsConsumed}`)
  if (meta.costUnits !== null) members.push(`"costUnits":${meta.costUnits}`)
  return `{${members.join(',')}}`
}

/** The addresses loaded from lookup tables. */
export function loadedText(
  meta: Pick<MetaContent, 'loadedReadonlyAddresses' | 'loadedWritableAddresses'>,
): string {
  const list = (keys: readonly Uint8Array[]) => `[${keys.map((key) => `"${keyText(key)}"`)}]`
  const writable = list(meta.loadedWritableAddresses)
  return `{"writable":${writable},"readonly":${list(meta.loadedReadonlyAddresses)}}`
}

export function returnDataText(returned: MetaContent['returnData']): string {
  if (returned === null) return 'null'
  const data = Buffer.from(returned.data).toString('base64')
  return `{"programId":"${keyText(returned.programId)}","data":["${data}","base64"]}`
}

/** The meta of transaction details `accounts`. */
export function simpleMetaText({ meta }: TransactionContent): string {
  return `{${headText(meta)},${balancesText(meta)}}`
}

export function rewardsText(rewards: readonly RewardContent[]): string {
  return `[${rewards.map(rewardText).join(',')}]`
}

/** The TransactionError as JSON; null for success. */
export function errText(err: Uint8Array | null): string {
  return err === null ? 'null' : JSON.stringify(decodeTransactionError(err) ?? 'UnknownError')
}

function headText(meta: MetaContent): string {
  const err = errText(meta.err)
  const status = meta.err === null ? '{"Ok":null}' : `{"Err":${err}}`
  return (
    `"err":${err},"status":${status},"fee":${meta.fee},` +
    `"preBalances":[${meta.preBalances.join(',')}],"postBalances":[${meta.postBalances.join(',')}]`
  )
}

function innersText(inner: MetaContent['innerInstructions'], write: WriteInner): string {
  if (inner === null) return 'null'
  const groups = inner.map(
    ({ index, instructions }) =>
      `{"index":${index},"instructions":[${instructions.map(write).join(',')}]}`,
  )
  return `[${groups.join(',')}]`
}

function balancesText({ preTokenBalances, postTokenBalances }: MetaContent): string {
  const list = (balances: readonly TokenBalanceContent[]) =>
    `[${balances.map(tokenBalanceText).join(',')}]`
  return (
    `"preTokenBalances":${list(preTokenBalances)},` +
    `"postTokenBalances":${list(postTokenBalances)}`
  )
}

/** Stored outcomes have no zero among their floats: it is null there, and only there. */
export function tokenBalanceText(balance: TokenBalanceContent): string {
  const { accountIndex, mint, owner, programId } = balance
  const amount = uiTokenAmount(BigInt(balance.amount), balance.decimals)
  const shown = { ...amount, uiAmount: amount.uiAmount === 0 ? null : amount.uiAmount }
  return (
    `{"accountIndex":${accountIndex},"mint":"${mint}","uiTokenAmount":${JSON.stringify(shown)},` +
    `"owner":"${owner}","programId":"${programId}"}`
  )
}

const rewardTypes = [null, 'Fee', 'Rent', 'Staking', 'Voting', 'DeactivatedStake'] as const

function rewardText({ pubkey, lamports, postBalance, rewardType, commission }: RewardContent) {
  const type = rewardTypes[rewardType] ?? null
  return (
    `{"pubkey":"${pubkey}","lamports":${lamports},"postBalance":${postBalance},` +
    `"rewardType":${JSON.stringify(type)},"commission":${commission === '' ? 'null' : commission}}`
  )
}
