// Writes a wish back as the params of its subscribe method, for a node to read. Thread: any (pure).
// Called by relay-subscriptions.ts. One wish, one text: members stand in a fixed order, defaults
// are written out, and members that nobody knows are gone.
import { commitmentNames } from '../../base/commitment.ts'
import type { TransactionFilter, Wanted } from '../../pubsub/wanted.ts'
import type { AccountFilter } from '../../solana/account-filter.ts'
import { encodeBase58 } from '../../solana/base58.ts'
import { bytesOf } from '../../solana/keys.ts'
import type { AccountView } from '../../solana/ui-account.ts'
import type { TransactionView } from '../../solana/ui-transaction.ts'

/** JSON of the params, a list. */
export function wantedParams(wanted: Wanted): string {
  return JSON.stringify(paramsOf(wanted))
}

function paramsOf(wanted: Wanted): readonly unknown[] {
  if (!('commitment' in wanted)) return []
  const commitment = commitmentNames[wanted.commitment]
  switch (wanted.kind) {
    case 'account':
      return [textOf(wanted.key), { commitment, ...accountConfig(wanted.view) }]
    case 'program': {
      const filters = wanted.filters.map(filterOf)
      const config = { commitment, ...accountConfig(wanted.view) }
      return [textOf(wanted.key), filters.length === 0 ? config : { ...config, filters }]
    }
    case 'logs': {
      const all = wanted.withVotes ? 'allWithVotes' : 'all'
      const filter = wanted.mention === null ? all : { mentions: [textOf(wanted.mention)] }
      return [filter, { commitment }]
    }
    case 'signature': {
      const { wantsReceived: enableReceivedNotification } = wanted
      return [textOf(wanted.key), { commitment, enableReceivedNotification }]
    }
    case 'block': {
      const { mention } = wanted
      const filter = mention === null ? 'all' : { mentionsAccountOrProgram: textOf(mention) }
      return [filter, { commitment, ...transactionConfig(wanted.view) }]
    }
    case 'transaction':
      return [transactionFilter(wanted.filter), { commitment, ...transactionConfig(wanted.view) }]
  }
}

function textOf(key: string): string {
  return encodeBase58(bytesOf(key))
}

/** `binary` is what a validator takes for no encoding at all, and newer ones may not know it. */
function accountConfig({ encoding, dataSlice }: AccountView): object {
  return {
    ...(encoding === 'binary' ? {} : { encoding }),
    ...(dataSlice === null ? {} : { dataSlice }),
  }
}

function transactionConfig(view: TransactionView): object {
  const { encoding, details, showRewards, versionMax } = view
  return {
    encoding,
    transactionDetails: details,
    showRewards,
    ...(versionMax === null ? {} : { maxSupportedTransactionVersion: versionMax }),
  }
}

function filterOf(filter: AccountFilter): unknown {
  switch (filter.kind) {
    case 'dataSize':
      return { dataSize: filter.size }
    case 'memcmp': {
      const bytes = Buffer.from(filter.bytes).toString('base64')
      return { memcmp: { offset: filter.offset, bytes, encoding: 'base64' } }
    }
    case 'tokenAccountState':
      return 'tokenAccountState'
  }
}

function transactionFilter(filter: TransactionFilter): object {
  const { isVote, isFailed, signature, include, exclude, required } = filter
  return {
    ...(isVote === null ? {} : { vote: isVote }),
    ...(isFailed === null ? {} : { failed: isFailed }),
    ...(signature === null ? {} : { signature: textOf(signature) }),
    ...(include.length === 0 ? {} : { accountInclude: include.map(textOf) }),
    ...(exclude.length === 0 ? {} : { accountExclude: exclude.map(textOf) }),
    ...(required.length === 0 ? {} : { accountRequired: required.map(textOf) }),
  }
}
