// Caches mints for `jsonParsed` token accounts, whose decimals, interest and multiplier are only
// in their mint (LRU), and the cluster's time, which interest depends on.
//
//   token account -> load: mint known -> null
//                          unknown    -> batch of this turn -> readAccounts, once for all waiting
//   mint or Clock sysvar on the stream -> learn: replaces what a node returned
import type { Clock } from '../../base/clock.ts'
import type { AccountData, ReadAccount } from '../../chain/solana/json-parsed/parsed.ts'
import { isSameKey, keyOf } from '../../chain/solana/keys.ts'
import { nativeMint, sysvarOwner, sysvars } from '../../chain/solana/programs.ts'
import { readMint, readTokenAccount } from '../../chain/solana/token-account.ts'
import type { PubsubChain } from './chain.ts'

const MINTS_MAX = 10_000
/** As many as getMultipleAccounts takes. */
const BATCH_MAX = 100
/** Notifications wait no longer than this; they are then sent as base64. */
const LOAD_MS_MAX = 2_000
/** A mint that could not be loaded is not requested again before this. */
const MISSING_MS = 5_000
/**
 * The bytes of a mint that are read: enough for all extensions of fixed length. Those of variable
 * length come after them and do not change how amounts are shown.
 */
export const MINT_BYTES_READ = 1_280

interface CachedMint {
  /** Null when no node has it. */
  readonly account: AccountData | null
  readonly cachedMs: number
}

interface Batch {
  readonly keys: Map<string, Uint8Array>
  readonly done: Promise<void>
}

export class MintCache {
  readonly #readAccounts: PubsubChain['readAccounts']
  readonly #clock: Clock
  /** Least recently used first. */
  readonly #mints = new Map<string, CachedMint>()
  readonly #loading = new Map<string, Batch>()
  #batch: Batch | null = null

  constructor(readAccounts: PubsubChain['readAccounts'], clock: Clock) {
    this.#readAccounts = readAccounts
    this.#clock = clock
  }

  /** Reads a cached mint, or the Clock sysvar. */
  readonly read: ReadAccount = (pubkey) =>
    this.#mints.get(keyOf(pubkey))?.account ??
    (isSameKey(pubkey, sysvars.clock) ? this.#wallClock() : null)

  /**
   * Loads the mint of a token account. Null when none is needed or it is cached; otherwise resolves
   * when it is cached or the load timed out. Never rejects.
   */
  load({ owner, data }: AccountData): Promise<void> | null {
    const mint = readTokenAccount(owner, data)?.mint
    if (mint === undefined || isSameKey(mint, nativeMint)) return null
    const key = keyOf(mint)
    const cached = this.#mints.get(key)
    if (cached === undefined || this.#isExpired(cached))
      return (this.#loading.get(key) ?? this.#enqueue(key, mint)).done
    this.#put(key, cached)
    return null
  }

  /** Takes an account of the stream: a mint is cached, one that was closed is evicted. */
  learn({ pubkey, owner, data }: AccountData & { readonly pubkey: Uint8Array }): void {
    const isKept = readMint(owner, data) !== null || isSameKey(pubkey, sysvars.clock)
    if (isKept) this.#cache(keyOf(pubkey), { owner, data })
    else if (this.#mints.size > 0) this.#mints.delete(keyOf(pubkey))
  }

  /** To be called when `learn` will miss updates. */
  clear(): void {
    this.#mints.clear()
  }

  /** Stands in for the Clock sysvar until the stream has sent one. */
  #wallClock(): AccountData {
    const data = Buffer.alloc(40)
    data.writeBigInt64LE(BigInt(Math.floor(this.#clock.nowMs() / 1_000)), 32)
    return { owner: sysvarOwner, data }
  }

  #isExpired({ account, cachedMs }: CachedMint): boolean {
    return account === null && this.#clock.monotonicMs() - cachedMs > MISSING_MS
  }

  #enqueue(key: string, mint: Uint8Array): Batch {
    let batch = this.#batch
    if (batch === null || batch.keys.size === BATCH_MAX) {
      const keys = new Map<string, Uint8Array>()
      batch = { keys, done: this.#run(keys) }
      this.#batch = batch
    }
    batch.keys.set(key, mint)
    this.#loading.set(key, batch)
    return batch
  }

  async #run(keys: ReadonlyMap<string, Uint8Array>): Promise<void> {
    // The other token accounts of this turn join the batch.
    await new Promise((resolve) => setImmediate(resolve))
    if (this.#batch?.keys === keys) this.#batch = null
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<readonly null[]>((resolve) => {
      timer = setTimeout(resolve, LOAD_MS_MAX, [])
    })
    const accounts = await Promise.race([this.#readAccounts([...keys.values()]), timeout])
    clearTimeout(timer)
    for (const [index, key] of [...keys.keys()].entries()) {
      this.#loading.delete(key)
      // The stream's version is newer.
      if ((this.#mints.get(key)?.account ?? null) === null)
        this.#cache(key, accounts[index] ?? null)
    }
  }

  #cache(key: string, account: AccountData | null): void {
    const kept = account && { owner: copyOf(account.owner), data: copyOf(account.data) }
    this.#put(key, { account: kept, cachedMs: this.#clock.monotonicMs() })
  }

  #put(key: string, mint: CachedMint): void {
    this.#mints.delete(key)
    this.#mints.set(key, mint)
    if (this.#mints.size > MINTS_MAX) this.#mints.delete(this.#mints.keys().next().value!)
  }
}

/** Owned bytes: a view would keep a whole message of the stream alive. */
function copyOf(bytes: Uint8Array): Uint8Array {
  return Uint8Array.prototype.slice.call(bytes, 0, MINT_BYTES_READ)
}
