// Random Subscribe requests over the keys of a synthetic chain, and what a client reads back.
import type { Commitment } from '../../src/base/commitment.ts'
import { decodeKey, encodeBase58 } from '../../src/chain/solana/base58.ts'
import type { Codec } from '../../src/streams/geyser/codec.ts'
import { buildCuckoo } from './cuckoo-builder.ts'
import {
  type Asked,
  type AskedAccounts,
  type AskedState,
  type AskedTransactions,
  type Expected,
  oracleSeed,
} from './geyser-oracle.ts'
import type { SyntheticSolana } from './synthetic-solana.ts'

export function randomAsked(chain: SyntheticSolana, random: () => number): Asked {
  const below = (limit: number) => Math.floor(random() * limit)
  const maybe = <T>(make: () => T): T | undefined => (below(3) === 0 ? make() : undefined)
  const flag = () => below(2) === 0
  const keys = (from: readonly Uint8Array[], most: number) =>
    Array.from({ length: below(most + 1) }, () => encodeBase58(from[below(from.length)]!))
  const state = (): AskedState => {
    const kind = below(4)
    if (kind === 0) return { datasize: below(2) === 0 ? 165 : below(200) }
    if (kind === 1) return { tokenAccountState: true }
    if (kind === 2) return { memcmp: { offset: below(40), bytes: Buffer.from([below(256)]) } }
    const cmp = (['eq', 'ne', 'lt', 'gt'] as const)[below(4)]!
    return { lamports: { [cmp]: below(5) * 1_000_000 } }
  }
  const accounts = (): AskedAccounts =>
    compact({
      account: keys(chain.keys, 4),
      owner: keys(chain.owners, 2),
      filters: maybe(() => [state()]) ?? [],
      nonemptyTxnSignature: maybe(flag),
      cuckoo: below(6) === 0 ? keys(chain.keys, 5) : undefined,
    })
  const transactions = (): AskedTransactions =>
    compact({
      vote: maybe(flag),
      failed: maybe(flag),
      accountInclude: keys(chain.keys, 3),
      accountExclude: keys(chain.keys, 1),
      accountRequired: below(3) === 0 ? keys(chain.keys, 2) : [],
      tokenAccounts: maybe(() => below(2) as 0 | 1),
      cuckoo: below(6) === 0 ? keys(chain.keys, 4) : undefined,
      instructions: maybe(() =>
        keys(chain.keys, 8).map((program) => ({
          program,
          // The empty data of the second instruction of every transaction, or a first byte.
          dataPrefix: below(2) === 0 ? Buffer.alloc(0) : Buffer.from([below(64) * 4]),
        })),
      ),
    })
  const some = <F>(make: () => F): Record<string, F> =>
    Object.fromEntries(Array.from({ length: below(4) }, (_, index) => [`f${index}`, make()]))
  return {
    commitment: below(3) as Commitment,
    accounts: some(accounts),
    slots: some(() => compact({ filterByCommitment: maybe(flag), interslotUpdates: maybe(flag) })),
    transactions: some(transactions),
    transactionsStatus: some(transactions),
    blocks: some(() =>
      compact({
        accountInclude: keys(chain.keys, 2),
        includeTransactions: maybe(flag),
        includeAccounts: maybe(flag),
        includeEntries: maybe(flag),
      }),
    ),
    blocksMeta: some(() => ({})),
    entry: some(() => ({})),
    accountsDataSlice: below(3) === 0 ? [{ offset: below(50), length: below(50) }] : [],
  }
}

/** The request as a message of geyser.SubscribeRequest. */
export function requestOf(asked: Asked): object {
  const withCuckoo = (field: string) => (filter: AskedAccounts | AskedTransactions) => {
    const { cuckoo, ...rest } = filter
    if (cuckoo === undefined) return rest
    return { ...rest, [field]: cuckooOf(cuckoo) }
  }
  const each = <F>(filters: Record<string, F>, map: (filter: F) => object) =>
    Object.fromEntries(Object.entries(filters).map(([name, filter]) => [name, map(filter)]))
  return {
    ...asked,
    accounts: each(asked.accounts, withCuckoo('cuckooAccountsFilter')),
    transactions: each(asked.transactions, withCuckoo('cuckooAccountInclude')),
    transactionsStatus: each(asked.transactionsStatus, withCuckoo('cuckooAccountInclude')),
  }
}

/** Reads whole frames as a client would: what came, in the oracle's words. */
export function readFrames(codec: Codec, bytes: Buffer): Expected[] {
  const read: Expected[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = at + 5 + bytes.readUInt32BE(at + 1)
    if (bytes[at] !== 0 || end > bytes.length) throw new Error(`a broken frame at ${at}`)
    read.push(readUpdate(codec, bytes.subarray(at + 5, end)))
    at = end
  }
  return read
}

export function readUpdate(codec: Codec, message: Uint8Array): Expected {
  const type = codec.root.lookupType('geyser.SubscribeUpdate')
  const options = { longs: String, bytes: Buffer, defaults: true, oneofs: true }
  // biome-ignore lint/suspicious/noExplicitAny: fields are read one by one, as in a client.
  const update = type.toObject(type.decode(message), options) as any
  const field: string = update.updateOneof
  if (update.createdAt === null) throw new Error('an update without its time')
  return { field, filters: update.filters, mark: markOf(field, update[field]) }
}

// biome-ignore lint/suspicious/noExplicitAny: see above.
function markOf(field: string, value: any): string {
  // biome-ignore lint/suspicious/noExplicitAny: see above.
  const account = (info: any) => `${info.writeVersion}:${info.data.toString('hex')}`
  switch (field) {
    case 'account':
      return account(value.account)
    case 'transaction':
      return encodeBase58(value.transaction.signature)
    case 'transactionStatus':
      return encodeBase58(value.signature)
    case 'slot': {
      const statuses = ['PROCESSED', 'CONFIRMED', 'FINALIZED', 'FIRST_SHRED_RECEIVED', 'COMPLETED']
      const names = [...statuses, 'CREATED_BANK', 'DEAD']
      const status = typeof value.status === 'number' ? value.status : names.indexOf(value.status)
      return `${value.slot}/${status}`
    }
    case 'entry':
      return `${value.slot}/${value.index}`
    case 'blockMeta':
      return value.blockhash
    case 'block':
      return [
        value.blockhash,
        // biome-ignore lint/suspicious/noExplicitAny: see above.
        value.transactions.map((info: any) => encodeBase58(info.signature)).join(),
        value.accounts.map(account).join(),
        value.entries.length,
        value.updatedAccountCount,
      ].join(' ')
    default:
      return field
  }
}

function cuckooOf(keys: readonly string[]): object {
  const seed = oracleSeed
  const built = buildCuckoo(keys.map(decode), seed)
  return {
    data: built.data,
    bucketCount: built.buckets,
    entriesPerBucket: 4,
    fingerprintBits: 16,
    hashSeed: { low: Number(seed & 0xffffffffn) | 0, high: Number(seed >> 32n), unsigned: true },
    hashAlgorithm: 0,
  }
}

function decode(text: string): Uint8Array {
  const key = decodeKey(text)
  if (key === null) throw new Error(`no key: ${text}`)
  return key
}

function compact<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  // Reason for the cast: undefined members are omitted, which the type then states.
  return Object.fromEntries(
    Object.entries(value).filter(([, inner]) => inner !== undefined),
  ) as never
}
