// The RPC method getRecentPrioritizationFees.
import { encodedText } from '../../base/jsonrpc/build.ts'
import type { FeeReads, Source } from './chain-reads.ts'
import { type Answering, answering } from './view.ts'

const addressesMax = 128

export function feeMethods(source: Source<FeeReads>) {
  return {
    getRecentPrioritizationFees: answering({ least: 0, most: 1 }, (params) => {
      const texts = params.at(0) === null ? [] : params.texts(0, addressesMax)
      const keys = texts.map((text) => params.keyOf(text))
      return () => {
        const rows = source.ledger
          .prioritizationFees(keys, source.shapes.feeRateOfPaid)
          .map(({ slot, rate }) => `{"prioritizationFee":${rate},"slot":${slot}}`)
        return encodedText(`[${rows.join(',')}]`)
      }
    }),
  } satisfies Readonly<Record<string, Answering>>
}
