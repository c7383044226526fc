// RPC methods on the history: those of solana-rpc, and getSignaturesForAddress. Thread: main of the
// devnode.
import { type Commitment, commitmentNames } from '../../base/commitment.ts'
import { jsonText } from '../../base/json-text.ts'
import { encodedText, failure } from '../../base/jsonrpc/build.ts'
import { encodeBase58 } from '../../chain/solana/base58.ts'
import type { SignatureStatus } from '../../chain/solana/updates.ts'
import type { HistoryReads } from '../../chain/solana-rpc/chain-reads.ts'
import { historyMethods } from '../../chain/solana-rpc/methods.ts'
import type { Answering } from '../../chain/solana-rpc/params.ts'
import { answering, historyViewOf, rpcFaults } from '../../chain/solana-rpc/params.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { blockAt } from './blocks.ts'
import type { RpcNode } from './rpc-node.ts'

const signaturesMax = 1_000

export function transactionMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger, apiVersion, shapes } = node
  return {
    ...historyMethods({ apiVersion, shapes, ledger: historyOf(ledger) }),
    getSignaturesForAddress: signaturesForAddress(node),
  }
}

/** A ledger as the shared methods read it. */
function historyOf(ledger: Ledger): HistoryReads {
  return {
    slot: (commitment) => ledger.slot(commitment),
    stateSlot: (commitment) => ledger.stateSlot(commitment),
    signatureStatus: (signature) => ledger.signatureStatus(signature),
    landed(signature, commitment) {
      const found = ledger.transaction(signature)
      const reached = found === null ? null : ledger.blockCommitment(found.slot)
      return reached === null || reached < commitment ? null : found
    },
    landedBlock: (slot, commitment) => blockAt(ledger, slot, commitment),
  }
}

function signaturesForAddress({ ledger, shapes }: RpcNode): Answering {
  return answering({ least: 1, most: 2 }, (params) => {
    const address = params.key(0)
    const config = params.config(1, 'RpcSignaturesForAddressConfig')
    const { commitment } = historyViewOf(config, ledger)
    const before = config.text('before')
    const until = config.text('until')
    const limit = config.u64('limit', 'usize') ?? signaturesMax
    if (limit === 0 || limit > signaturesMax) params.fail(`Invalid limit; max ${signaturesMax}`)
    const options = {
      limit,
      commitment,
      shapes,
      before: before === null ? null : params.signatureOf(before),
      until: until === null ? null : params.signatureOf(until),
    }
    return () => {
      for (const signature of [options.before, options.until])
        if (signature !== null && !isReached(ledger.signatureStatus(signature), commitment))
          return failure(rpcFaults.transactionNotFound(encodeBase58(signature)))
      return encodedText(
        jsonText(
          ledger.signaturesForAddress(address, options).map((info) => ({
            blockTime: info.blockTime,
            confirmationStatus: commitmentNames[info.commitment],
            err: info.err,
            memo: info.memo,
            signature: encodeBase58(info.signature),
            slot: info.slot,
            transactionIndex: info.index,
          })),
        ),
      )
    }
  })
}

/** A validator refuses to page from a transaction that it does not have. */
function isReached(status: SignatureStatus | null, commitment: Commitment): boolean {
  return status !== null && status.commitment >= commitment
}
