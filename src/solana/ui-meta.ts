// The outcome of a transaction as JSON-RPC shows it (`meta`), and a block's rewards.
// Thread: any (pure). Called by ui-transaction.ts and by the websocket room.
import { encodeBase58 } from './base58.ts'
import type {
  InstructionContent,
  MetaContent,
  RewardContent,
  TokenBalanceContent,
  TransactionContent,
} from './geyser-content.ts'
import { decodeTransactionError } from './transaction-error.ts'

type WriteInner = (instruction: InstructionContent & { readonly stackHeight?: number }) => string

/** Everything there is. Rewards are null unless asked for, as a validator has it. */
export function metaText(
  { meta }: TransactionContent,
  { showRewards }: { readonly showRewards: boolean },
  writeInner: WriteInner,
): string {
  const parts = [
    headText(meta),
    `"innerInstructions":${innersText(meta.innerInstructions, writeInner)}`,
    `"logMessages":${meta.logMessages === null ? 'null' : JSON.stringify(meta.logMessages)}`,
    balancesText(meta),
    `"rewards":${showRewards ? rewardsText(meta.rewards) : 'null'}`,
  ]
  const loaded = [meta.loadedWritableAddresses, meta.loadedReadonlyAddresses].map(
    (list) => `[${list.map((key) => `"${encodeBase58(key)}"`).join(',')}]`,
  )
  parts.push(`"loadedAddresses":{"writable":${loaded[0]},"readonly":${loaded[1]}}`)
  if (meta.returnData !== null) {
    const data = Buffer.from(meta.returnData.data).toString('base64')
    const program = encodeBase58(meta.returnData.programId)
    parts.push(`"returnData":{"programId":"${program}","data":["${data}","base64"]}`)
  }
  if (meta.computeUnitsConsumed !== null)
    parts.push(`"computeUnitsConsumed":${meta.computeUnitsConsumed}`)
  return `{${parts.join(',')}}`
}

/** What goes with the details `accounts`. */
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

function tokenBalanceText(balance: TokenBalanceContent): string {
  const { accountIndex, mint, owner, programId, amount, decimals } = balance
  const text = decimalText(amount, decimals)
  const uiAmount = amount === '0' ? 'null' : String(Number(text))
  return (
    `{"accountIndex":${accountIndex},"mint":"${mint}","uiTokenAmount":{"uiAmount":${uiAmount},` +
    `"decimals":${decimals},"amount":"${amount}","uiAmountString":"${text}"},` +
    `"owner":"${owner}","programId":"${programId}"}`
  )
}

/** Exact, trailing zeros cut: 1500000 of 6 decimals is 1.5. */
function decimalText(amount: string, decimals: number): string {
  if (decimals === 0) return amount
  const digits = amount.padStart(decimals + 1, '0')
  const fraction = digits.slice(-decimals).replace(/0+$/, '')
  const whole = digits.slice(0, -decimals)
  return fraction === '' ? whole : `${whole}.${fraction}`
}

const rewardTypes = [null, 'Fee', 'Rent', 'Staking', 'Voting', 'DeactivatedStake'] as const

function rewardText({ pubkey, lamports, postBalance, rewardType, commission }: RewardContent) {
  const type = rewardTypes[rewardType] ?? null
  return (
    `{"pubkey":"${pubkey}","lamports":${lamports},"postBalance":${postBalance},` +
    `"rewardType":${JSON.stringify(type)},"commission":${commission === '' ? 'null' : commission}}`
  )
}
