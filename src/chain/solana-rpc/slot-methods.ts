// RPC methods on slots and blockhashes: getSlot, getBlockHeight, getLatestBlockhash,
// isBlockhashValid.
import { encodedText } from '../../base/jsonrpc/build.ts'
import type { SlotReads, Source } from './chain-reads.ts'
import { type Answering, answering, inContext, slotViewOf } from './view.ts'

export function slotMethods(source: Source<SlotReads>) {
  const { ledger } = source
  return {
    getSlot: answering({ least: 0, most: 1 }, (params) => {
      const { slot } = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => encodedText(String(slot))
    }),
    getBlockHeight: answering({ least: 0, most: 1 }, (params) => {
      const { commitment } = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => encodedText(String(ledger.blockHeight(commitment)))
    }),
    getLatestBlockhash: answering({ least: 0, most: 1 }, (params) => {
      const { commitment } = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => {
        const { blockhash, lastValidBlockHeight, slot } = ledger.latestBlockhash(commitment)
        const value = `{"blockhash":"${blockhash}","lastValidBlockHeight":${lastValidBlockHeight}}`
        return inContext(source, slot, value)
      }
    }),
    isBlockhashValid: answering({ least: 1, most: 2 }, (params) => {
      const blockhash = params.hash(0)
      const view = slotViewOf(params.config(1, 'RpcContextConfig'), ledger)
      return () =>
        inContext(source, view.slot, String(ledger.isBlockhashValid(blockhash, view.commitment)))
    }),
  } satisfies Readonly<Record<string, Answering>>
}
