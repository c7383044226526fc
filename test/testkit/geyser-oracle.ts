// The meaning of geyser filters, written slowly and obviously: what a stream with a request must get
// for an update. Works on base58 texts and knows nothing of the product's compiled filters.
import type { Commitment } from '../../src/base/commitment.ts'
import { decodeKey, encodeBase58 } from '../../src/chain/solana/base58.ts'
import { decodeTransactionInfo } from '../../src/chain/solana/geyser-decode.ts'
import type {
  AccountUpdate,
  BlockUpdate,
  SolanaUpdate,
  TransactionUpdate,
} from '../../src/chain/solana/updates.ts'
import { buildCuckoo, cuckooTakes } from './cuckoo-builder.ts'

export const oracleSeed = 0x0123456789abcdefn

export interface AskedAccounts {
  account?: string[]
  owner?: string[]
  filters?: AskedState[]
  nonemptyTxnSignature?: boolean
  cuckoo?: string[]
}
export type AskedState =
  | { memcmp: { offset: number; bytes: Uint8Array } }
  | { datasize: number }
  | { tokenAccountState: true }
  | { lamports: Partial<Record<'eq' | 'ne' | 'lt' | 'gt', number>> }
export interface AskedTransactions {
  vote?: boolean
  failed?: boolean
  signature?: string
  accountInclude?: string[]
  accountExclude?: string[]
  accountRequired?: string[]
  tokenAccounts?: 0 | 1
  instructions?: { program: string; dataPrefix: Uint8Array }[]
  cuckoo?: string[]
}
export interface AskedBlocks {
  accountInclude?: string[]
  includeTransactions?: boolean
  includeAccounts?: boolean
  includeEntries?: boolean
}
/** A request in the form that the test's generator makes. */
export interface Asked {
  commitment: Commitment
  accounts: Record<string, AskedAccounts>
  slots: Record<string, { filterByCommitment?: boolean; interslotUpdates?: boolean }>
  transactions: Record<string, AskedTransactions>
  transactionsStatus: Record<string, AskedTransactions>
  blocks: Record<string, AskedBlocks>
  blocksMeta: Record<string, object>
  entry: Record<string, object>
  accountsDataSlice: { offset: number; length: number }[]
}

/** What the stream gets: the field of SubscribeUpdate, the names, and its identity. */
export interface Expected {
  readonly field: string
  readonly filters: readonly string[]
  readonly mark: string
}

export function expectedOf(asked: Asked, update: SolanaUpdate): Expected[] {
  const named = <F>(filters: Record<string, F>, takes: (filter: F) => boolean) =>
    Object.keys(filters)
      .sort()
      .filter((name) => takes(filters[name]!))
  const one = (field: string, filters: string[], mark: string) =>
    filters.length === 0 ? [] : [{ field, filters, mark }]
  switch (update.kind) {
    case 'account': {
      const names = named(asked.accounts, (filter) => takesAccount(filter, update))
      return one('account', names, accountMark(update, asked))
    }
    case 'transaction': {
      const mark = encodeBase58(update.signature)
      const takes = (filter: AskedTransactions) => takesTransaction(filter, update)
      return [
        ...one('transaction', named(asked.transactions, takes), mark),
        ...one('transactionStatus', named(asked.transactionsStatus, takes), mark),
      ]
    }
    case 'slot': {
      const names = named(asked.slots, (filter) => {
        if (filter.filterByCommitment && update.status !== asked.commitment) return false
        return update.status <= 2 || filter.interslotUpdates === true
      })
      return one('slot', names, `${update.slot}/${update.status}`)
    }
    case 'entry':
      return one('entry', Object.keys(asked.entry).sort(), `${update.slot}/${update.index}`)
    case 'retraction':
      return []
    case 'blockMeta':
      return one('blockMeta', Object.keys(asked.blocksMeta).sort(), update.blockhash)
    case 'block':
      return Object.keys(asked.blocks)
        .sort()
        .flatMap((name) => one('block', [name], blockMark(asked.blocks[name]!, update, asked)))
  }
}

function takesAccount(filter: AskedAccounts, update: AccountUpdate): boolean {
  const pubkey = encodeBase58(update.pubkey)
  const owner = encodeBase58(update.owner)
  if (filter.account?.length || filter.cuckoo)
    if (!filter.account?.includes(pubkey) && !takesByCuckoo(filter.cuckoo, [pubkey])) return false
  if (filter.owner?.length && !filter.owner.includes(owner)) return false
  if (filter.nonemptyTxnSignature !== undefined)
    if (filter.nonemptyTxnSignature !== (update.txnSignature !== null)) return false
  return (filter.filters ?? []).every((state) => {
    if ('datasize' in state) return update.data.length === state.datasize
    if ('tokenAccountState' in state) return isTokenAccount(update.data)
    if ('memcmp' in state) {
      const { offset, bytes } = state.memcmp
      const there = Buffer.from(update.data.subarray(offset, offset + bytes.length))
      return there.equals(bytes)
    }
    const lamports = Number(update.lamports)
    const { eq, ne, lt, gt } = state.lamports
    if (eq !== undefined) return lamports === eq
    if (ne !== undefined) return lamports !== ne
    return lt !== undefined ? lamports < lt : lamports > gt!
  })
}

/** 165 bytes with a state, alone or followed by the type of an account (2) and extensions. */
function isTokenAccount(data: Uint8Array): boolean {
  const isLong = data.length > 165 && data.length !== 355 && data[165] === 2
  return (data.length === 165 || isLong) && data[108] !== 0
}

function takesTransaction(filter: AskedTransactions, update: TransactionUpdate): boolean {
  const owners =
    filter.tokenAccounts === undefined
      ? []
      : filter.tokenAccounts === 0
        ? update.tokenOwners
        : update.changedTokenOwners
  const mentioned = [...update.keys, ...owners].map((key) => encodeBase58(key))
  const isAny = (keys: string[]) => keys.some((key) => mentioned.includes(key))
  if (filter.vote !== undefined && filter.vote !== update.isVote) return false
  if (filter.failed !== undefined && filter.failed !== (update.err !== null)) return false
  if (filter.signature && filter.signature !== encodeBase58(update.signature)) return false
  if (filter.accountInclude?.length || filter.cuckoo)
    if (!isAny(filter.accountInclude ?? []) && !takesByCuckoo(filter.cuckoo, mentioned))
      return false
  if (isAny(filter.accountExclude ?? [])) return false
  if (filter.instructions?.length) {
    const { message, meta } = decodeTransactionInfo(update.info)
    const inner = (meta.innerInstructions ?? []).flatMap(({ instructions }) => instructions)
    const isRun = [...message.instructions, ...inner].some(({ programIdIndex, data }) =>
      filter.instructions!.some(
        ({ program, dataPrefix }) =>
          encodeBase58(update.keys[programIdIndex]!) === program &&
          Buffer.from(data).subarray(0, dataPrefix.length).equals(dataPrefix),
      ),
    )
    if (!isRun) return false
  }
  return (filter.accountRequired ?? []).every((key) => mentioned.includes(key))
}

/** Fingerprints are short, so a cuckoo filter takes a few keys that were never put into it. */
function takesByCuckoo(keys: string[] | undefined, asked: string[]): boolean {
  if (keys === undefined) return false
  const known = built.get(keys)
  const data =
    known ??
    buildCuckoo(
      keys.map((key) => decodeKey(key)!),
      oracleSeed,
    ).data
  built.set(keys, data)
  return asked.some((key) => cuckooTakes(data, oracleSeed, decodeKey(key)!))
}

const built = new WeakMap<string[], Buffer>()

/** Write version and the data as it must arrive. */
function accountMark(update: AccountUpdate, asked: Asked): string {
  const slices = asked.accountsDataSlice
  const data =
    slices.length === 0
      ? Buffer.from(update.data)
      : Buffer.concat(
          slices
            .filter(({ offset, length }) => offset + length <= update.data.length)
            .map(({ offset, length }) => update.data.slice(offset, offset + length)),
        )
  return `${update.writeVersion}:${data.toString('hex')}`
}

function blockMark(filter: AskedBlocks, block: BlockUpdate, asked: Asked): string {
  const include = filter.accountInclude ?? []
  const takes = (keys: readonly Uint8Array[]) =>
    include.length === 0 || keys.some((key) => include.includes(encodeBase58(key)))
  const transactions =
    filter.includeTransactions === false ? [] : block.transactions.filter(({ keys }) => takes(keys))
  const accounts =
    filter.includeAccounts === true ? block.accounts.filter(({ pubkey }) => takes([pubkey])) : []
  return [
    block.meta.blockhash,
    transactions.map(({ signature }) => encodeBase58(signature)).join(),
    accounts.map((account) => accountMark(account, asked)).join(),
    filter.includeEntries === true ? block.entries.length : 0,
    block.accounts.length,
  ].join(' ')
}
