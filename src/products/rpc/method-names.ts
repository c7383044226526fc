// Lists the methods of Solana's JSON-RPC as meter labels: a closed set, whatever callers send.

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
