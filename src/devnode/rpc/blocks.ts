// RPC methods on blocks and blockhashes.
import type { Commitment } from '../../base/commitment.ts'
import { jsonText } from '../../base/json-text.ts'
import { type Answer, encodedText, failure, type RpcError } from '../../base/jsonrpc/build.ts'
import { feeMethods } from '../../chain/solana-rpc/methods.ts'
import type { Answering } from '../../chain/solana-rpc/params.ts'
import { answering, historyViewOf, rpcFaults } from '../../chain/solana-rpc/params.ts'
import type { Ledger, LedgerBlock } from '../ledger/ledger.ts'
import type { RpcNode } from './rpc-node.ts'

const rangeMax = 500_000
const samplesMax = 720

export function blockMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger } = node
  return {
    ...recentMethods(node),
    ...feeMethods(node),
    getBlockTime: answering({ least: 1, most: 1 }, (params) => {
      const slot = params.exactU64(0)
      return () => {
        const found = blockAt(ledger, slot, 0)
        return 'code' in found ? failure(found) : encodedText(String(found.blockTime))
      }
    }),
    getBlocks: answering({ least: 1, most: 3 }, (params) => {
      const from = params.u64(0)
      // The end may be left out, so that the config comes second.
      const isConfigSecond = typeof params.at(1) === 'object' && params.at(1) !== null
      const end = params.untagged('RpcBlocksConfigWrapper', () =>
        isConfigSecond ? null : params.optionalU64(1),
      )
      const config = params.config(isConfigSecond ? 1 : 2, 'RpcContextConfig')
      const { commitment, slot } = historyViewOf(config, ledger)
      const to = Math.min(end ?? from + rangeMax, slot)
      if (to - from > rangeMax) params.fail(`Slot range too large; max ${rangeMax}`)
      return () => slotsAnswer(ledger, { from, to, limit: rangeMax + 1 }, commitment)
    }),
    getBlocksWithLimit: answering({ least: 2, most: 3 }, (params) => {
      const from = params.u64(0)
      const limit = params.u64(1, 'usize')
      const { commitment, slot } = historyViewOf(params.config(2, 'RpcContextConfig'), ledger)
      if (limit > rangeMax) params.fail(`Limit too large; max ${rangeMax}`)
      return () => slotsAnswer(ledger, { from, to: slot, limit }, commitment)
    }),
    getFirstAvailableBlock: answering(
      { least: 0, most: 0 },
      () => () => encodedText(String(ledger.firstAvailableSlot)),
    ),
    minimumLedgerSlot: answering(
      { least: 0, most: 0 },
      () => () => encodedText(String(ledger.firstAvailableSlot)),
    ),
  }
}

function recentMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger } = node
  return {
    getRecentPerformanceSamples: answering({ least: 0, most: 1 }, (params) => {
      const limit = params.optionalU64(0, 'usize') ?? samplesMax
      if (limit > samplesMax) params.fail(`Invalid limit; max ${samplesMax}`)
      return () => encodedText(samplesText(ledger, limit))
    }),
  }
}

export function blockAt(
  ledger: Ledger,
  slot: number | bigint,
  commitment: Commitment,
): LedgerBlock | RpcError {
  if (typeof slot === 'bigint' || slot > ledger.slot(commitment))
    return rpcFaults.blockNotAvailable(slot)
  const first = ledger.firstAvailableSlot
  if (slot < first) return rpcFaults.blockCleanedUp(slot, first)
  return ledger.block(slot) ?? rpcFaults.slotSkipped(slot)
}

function slotsAnswer(
  ledger: Ledger,
  range: { readonly from: number; readonly to: number; readonly limit: number },
  commitment: Commitment,
): Answer {
  if (range.from > range.to || range.limit === 0) return encodedText('[]')
  return encodedText(`[${ledger.blockSlots(range, commitment).join(',')}]`)
}

function samplesText(ledger: Ledger, limit: number): string {
  const samples = ledger.performanceSamples(limit).map((sample) => ({
    numNonVoteTransactions: sample.numNonVoteTransactions,
    numSlots: sample.numSlots,
    numTransactions: sample.numTransactions,
    samplePeriodSecs: sample.samplePeriodSecs,
    slot: sample.slot,
  }))
  return jsonText(samples)
}
