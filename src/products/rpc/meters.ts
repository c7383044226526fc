// Declares the meters of the rpc endpoint. Plain numbers, read at scrape: the path is hot.
import { callOutcomes } from '../../base/jsonrpc/serve.ts'
import type { Meters } from '../../base/telemetry/meters.ts'

/** Solana's JSON-RPC: a closed set, whatever callers send. */
const solanaMethods = `
  getAccountInfo getAgGenesisCert getBalance getBlock getBlockCommitment getBlockHeight
  getBlockProduction getBlockTime getBlocks getBlocksWithLimit getClusterNodes getEpochInfo
  getEpochSchedule getFeeForMessage getFirstAvailableBlock getGenesisHash getHealth
  getHighestSnapshotSlot getIdentity getInflationGovernor getInflationRate getInflationReward
  getLargestAccounts getLatestBlockhash getLeaderSchedule getMaxRetransmitSlot
  getMaxShredInsertSlot getMinimumBalanceForRentExemption getMultipleAccounts getProgramAccounts
  getRecentPerformanceSamples getRecentPrioritizationFees getSignatureStatuses
  getSignaturesForAddress getSlot getSlotLeader getSlotLeaders getStakeMinimumDelegation getSupply
  getTokenAccountBalance getTokenAccountsByDelegate getTokenAccountsByOwner
  getTokenLargestAccounts getTokenSupply getTransaction getTransactionCount getVersion
  getVoteAccounts isBlockhashValid minimumLedgerSlot requestAirdrop sendTransaction
  simulateTransaction`

/** The last one counts all other names. */
export const methodLabels: readonly string[] = [...solanaMethods.trim().split(/\s+/), 'other']

export type RpcMeters = ReturnType<typeof declareRpcMeters>

export function declareRpcMeters(meters: Meters) {
  return {
    calls: meters.pairs(
      'sluice_rpc_requests_total',
      'JSON-RPC calls over HTTP by method and outcome, batch items one by one',
      ['method', methodLabels],
      ['outcome', callOutcomes],
    ),
    latency: meters.latency('sluice_rpc_seconds', 'Time from a whole request to its answer'),
  }
}
