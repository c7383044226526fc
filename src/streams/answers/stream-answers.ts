// Answers calls from what the stream of a set has shown, as a node would.
// Synchronous: an answer, or null for a call that a node has to answer. Never an error: a node
// words its own refusals.
//
//   hub ─► heads, accounts, blocks, fees ─► methods of solana-rpc ─► answer, kept until a head
//   moves
import { Commitment } from '../../base/commitment.ts'
import type { RpcError } from '../../base/jsonrpc/build.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import { encodeBase58 } from '../../chain/solana/base58.ts'
import type { AccountState } from '../../chain/solana/geyser-decode.ts'
import {
  decodeMessageOf,
  decodePlainRewards,
  decodeTransactionInfo,
} from '../../chain/solana/geyser-decode.ts'
import { decodeTransactionError } from '../../chain/solana/transaction-error.ts'
import type {
  BlockMetaUpdate,
  Head,
  SignatureStatus,
  SolanaUpdate,
} from '../../chain/solana/updates.ts'
import { blockhashBlocks } from '../../chain/solana/updates.ts'
import { newestShapes, type Shapes, shapesOf } from '../../chain/solana/version.ts'
import type {
  AccountReads,
  FeeReads,
  HistoryReads,
  Landed,
  LandedBlock,
  LatestBlockhash,
  SlotReads,
} from '../../chain/solana-rpc/chain-reads.ts'
import {
  accountMethods,
  feeMethods,
  historyMethods,
  slotMethods,
  transactionsPerTurn,
} from '../../chain/solana-rpc/methods.ts'
import { type Answering, rpcFaults } from '../../chain/solana-rpc/params.ts'
import { type BlockFee, RecentFees } from '../../chain/solana-rpc/recent-fees.ts'
import type { StreamAnswer } from '../../upstream/ports.ts'
import { Heads, type SolanaHub } from '../geyser/hub.ts'
import { AccountCache, type AccountCacheDeps } from './account-cache.ts'
import { type RecentBlock, RecentBlocks } from './recent-blocks.ts'

/** Answers that are remembered until the next head; the longest params and texts of them. */
const rememberedMax = 4_096
const rememberedParamsMax = 256
const rememberedTextMax = 4_096
/** Any other is read differently by different versions of nodes. */
const commitments: readonly unknown[] = ['processed', 'confirmed', 'finalized', undefined, null]

export interface StreamAnswersDeps {
  readonly accounts: AccountCacheDeps
  readonly blocks: { readonly bytesMax: number }
  /** False while the stream may lag the nodes of its set. */
  isLive(): boolean
  /** The lowest version in the contexts of the set's nodes; '' when unknown. */
  apiVersion(): string
  /** The lowest version of all that the set's nodes report: answers have its shapes. */
  nodeVersion(): string
}

interface Method {
  readonly run: Answering
  /** At processed its answer may change before a head moves, with a write in the open slot. */
  readonly readsAccounts: boolean
  /** By the text of the params; as long as no head moves. */
  readonly remembered: Map<string, StreamAnswer>
}

export class StreamAnswers {
  readonly #deps: StreamAnswersDeps
  readonly heads: Heads
  readonly accounts: AccountCache
  readonly blocks: RecentBlocks
  readonly #ledger: StreamLedger
  readonly #methods: ReadonlyMap<string, Method>
  #rememberedCount = 0
  /** In the answers that are remembered. */
  #apiVersion = ''

  constructor(hub: SolanaHub, deps: StreamAnswersDeps) {
    this.#deps = deps
    this.heads = new Heads(hub)
    this.accounts = new AccountCache(hub, deps.accounts)
    this.heads.onMove = () => this.#forget()
    this.accounts.onChange = this.heads.onMove
    this.blocks = new RecentBlocks(hub, deps.blocks)
    const { heads, accounts, blocks } = this
    const ledger = new StreamLedger({ heads, accounts, blocks, fees: new StreamFees(hub) })
    this.#ledger = ledger
    const [apiVersion, shapes] = [() => this.#knownVersion(), () => this.#shapes()]
    const source = {
      ledger,
      get apiVersion() {
        return apiVersion()
      },
      get shapes() {
        return shapes()
      },
    }
    const others = { ...slotMethods(source), ...historyMethods(source), ...feeMethods(source) }
    this.#methods = new Map([
      ...Object.entries(others).map(([name, run]) => methodOf(name, run, false)),
      ...Object.entries(accountMethods(source)).map(([name, run]) => methodOf(name, run, true)),
    ])
  }

  /** Null when a node has to answer. */
  answer(call: Call): StreamAnswer | null {
    const method = this.#methods.get(call.method)
    if (method === undefined || !this.#deps.isLive()) return null
    const apiVersion = this.#deps.apiVersion()
    if (apiVersion !== this.#apiVersion) {
      this.#apiVersion = apiVersion
      this.#forget()
    }
    const { paramsText } = call
    const known = method.remembered.get(paramsText)
    if (known !== undefined) return known
    const built = this.#build(call, method.run)
    if (built === null || built.answer.kind !== 'text') return null
    const isShort =
      paramsText.length <= rememberedParamsMax && built.answer.text.length <= rememberedTextMax
    const isSteady = !method.readsAccounts || built.commitment !== Commitment.processed
    if (isShort && isSteady && this.#rememberedCount < rememberedMax) {
      this.#rememberedCount++
      method.remembered.set(paramsText, built)
    }
    return built
  }

  #build(call: Call, run: Answering): StreamAnswer | null {
    if (!isPlain(call)) return null
    this.#ledger.begin()
    const answer = run(call)
    const view = this.#ledger.view()
    if (view === null || answer instanceof Promise || answer.kind !== 'text') return null
    return { answer: { ...answer, source: 'stream' }, ...view }
  }

  #forget(): void {
    if (this.#rememberedCount === 0) return
    this.#rememberedCount = 0
    for (const { remembered } of this.#methods.values()) remembered.clear()
  }

  #knownVersion(): string {
    if (this.#apiVersion === '') this.#ledger.miss()
    return this.#apiVersion
  }

  /** A version that the table does not have is a node's to show. */
  #shapes(): Shapes {
    const shapes = shapesOf(this.#deps.nodeVersion())
    if (shapes === null) this.#ledger.miss()
    return shapes ?? newestShapes
  }
}

function methodOf(name: string, run: Answering, readsAccounts: boolean): [string, Method] {
  return [name, { run, readsAccounts, remembered: new Map() }]
}

/** False for params that nodes of different versions, or we and they, may read differently. */
function isPlain({ params }: Call): boolean {
  const config: unknown = Array.isArray(params) ? params.at(-1) : null
  if (typeof config !== 'object' || config === null) return true
  const { commitment } = config as Record<string, unknown>
  return commitments.includes(commitment)
}

// The chain of a set as its stream shows it, for the shared RPC methods.
// What the stream does not know exactly is noted as missing: then the answer that was built with
// it is not given, and a node is asked.

/**
 * Below the 300 slots of a node's status cache, and the slots by which it may be ahead of us: slots
 * at any slot time, as the node counts them.
 */
const statusSlots = 256

const unknown: Head = { slot: 0, blockhash: '', blockHeight: 0 }

interface KnownChain {
  readonly heads: Heads
  readonly accounts: AccountCache
  readonly blocks: RecentBlocks
  readonly fees: StreamFees
}

class StreamLedger implements SlotReads, AccountReads, HistoryReads, FeeReads {
  readonly #known: KnownChain
  /** What the call read so far; null before its first read. */
  #commitment: Commitment | null = null
  #isMissing = false

  constructor(known: KnownChain) {
    this.#known = known
  }

  /** Before each call. */
  begin(): void {
    this.#commitment = null
    this.#isMissing = false
  }

  /** Where the call read; null when something was missing. */
  view(): { readonly commitment: Commitment; readonly slot: number } | null {
    const commitment = this.#commitment
    if (this.#isMissing || commitment === null) return null
    return { commitment, slot: this.#head(commitment).slot }
  }

  /** Notes that the answer cannot be given. */
  miss(): void {
    this.#isMissing = true
  }

  slot(commitment: Commitment): number {
    return this.#head(commitment).slot
  }

  stateSlot(commitment: Commitment): number {
    return this.slot(commitment)
  }

  blockHeight(commitment: Commitment): number {
    return this.#head(commitment).blockHeight
  }

  latestBlockhash(commitment: Commitment): LatestBlockhash {
    const { blockhash, slot, blockHeight } = this.#head(commitment)
    return { blockhash, slot, lastValidBlockHeight: blockHeight + blockhashBlocks }
  }

  isBlockhashValid(blockhash: Uint8Array, commitment: Commitment): boolean {
    const head = this.#head(commitment)
    const isValid = this.#known.heads.isShownValid(encodeBase58(blockhash), head)
    if (isValid === null) this.miss()
    return isValid === true
  }

  account(pubkey: Uint8Array, commitment: Commitment): AccountState | null {
    const { slot } = this.#head(commitment)
    const isProcessed = commitment === Commitment.processed
    const { accounts } = this.#known
    const account = isProcessed ? accounts.readProcessed(pubkey, slot) : accounts.read(pubkey, slot)
    if (account === undefined) this.miss()
    return account ?? null
  }

  prioritizationFees(accounts: readonly Uint8Array[], isPaid: boolean): readonly BlockFee[] {
    this.#head(Commitment.confirmed)
    const fees = this.#known.fees.read(accounts, isPaid)
    if (fees === null) this.miss()
    return fees ?? []
  }

  /**
   * Only void and finalized ones: how far an earlier one is confirmed depends on the votes that a
   * node saw.
   */
  signatureStatus(signature: Uint8Array): SignatureStatus | null {
    const found = this.#known.blocks.find(signature)
    if (found === null && this.#known.blocks.isVoid(signature)) return null
    const { slot } = found?.block.meta ?? unknown
    const error = found?.block.error(found.at) ?? null
    const err = error === null ? null : decodeTransactionError(error)
    const isKnown = found?.block.isFinalized === true && (error === null) === (err === null)
    if (!isKnown || slot < this.#head(Commitment.processed).slot - statusSlots) this.miss()
    return { slot, confirmations: null, err, commitment: Commitment.finalized }
  }

  landed(signature: Uint8Array, commitment: Commitment): Landed | null {
    const found = this.#known.blocks.find(signature)
    const info = found?.block.info(found.at) ?? null
    if (found === null || info === null || !hasReached(found.block, commitment)) {
      this.miss()
      return null
    }
    const { slot, blockTime } = found.block.meta
    return { slot, index: found.at, blockTime: blockTime!, content: decodeTransactionInfo(info) }
  }

  landedBlock(slot: number | bigint, commitment: Commitment): LandedBlock | RpcError {
    const block = typeof slot === 'bigint' ? null : this.#known.blocks.at(slot)
    const rewards = block === null ? null : decodePlainRewards(block.meta.rewards)
    if (block === null || rewards === null || !hasReached(block, commitment)) {
      this.miss()
      return rpcFaults.blockNotAvailable(slot)
    }
    const { parentSlot, blockhash, parentBlockhash, blockHeight, blockTime } = block.meta
    return {
      parentSlot,
      blockhash,
      previousBlockhash: parentBlockhash,
      blockHeight: blockHeight!,
      blockTime: blockTime!,
      rewards,
      transactions: () => this.#transactionsOf(block),
      signatures: () => Array.from({ length: block.length }, (_, at) => block.signature(at)),
    }
  }

  /** Of a short block: the main thread passes on a node's text of a long one faster than it
   *  encodes that. */
  #transactionsOf(block: RecentBlock): ReturnType<LandedBlock['transactions']> {
    const length = Math.min(block.length, transactionsPerTurn + 1)
    const infos = Array.from({ length }, (_, at) => block.info(at))
    if (length <= transactionsPerTurn && infos.every((info) => info !== null))
      return infos.map((info) => ({ content: decodeTransactionInfo(info) }))
    this.miss()
    return []
  }

  #head(commitment: Commitment): Head {
    this.#commitment = commitment
    const head = this.#known.heads.shownAt(commitment)
    if (head === null) this.miss()
    return head ?? unknown
  }
}

function hasReached(block: RecentBlock, commitment: Commitment): boolean {
  return block.isFinalized || commitment !== Commitment.finalized
}

// Follows the fee rates of confirmed blocks, as the caches of nodes do, once they were asked for.
// A node answers until the last blocks are known without a gap: then its own cache has the same.

class StreamFees {
  /** Null until it is asked. */
  #recent: RecentFees | null = null
  #isPaid = false
  /** Of the slot that is being confirmed. */
  #open = { slot: 0, transactions: 0 }
  /** Slot of the newest block; null after a gap. */
  #newestSlot: number | null = null

  constructor(hub: SolanaHub) {
    hub.onRestart(() => {
      this.#begin(0)
      this.#forget()
    })
    hub.listen(
      (commitment, update) => {
        const recent = this.#recent
        if (recent !== null && commitment === Commitment.confirmed) this.#confirm(recent, update)
      },
      (commitment) => this.#recent !== null && commitment === Commitment.confirmed,
    )
  }

  /** Null when a node has to answer. Nodes of another version with other rates begin anew. */
  read(accounts: readonly Uint8Array[], isPaid: boolean): readonly BlockFee[] | null {
    if (this.#recent === null || isPaid !== this.#isPaid) {
      this.#recent = new RecentFees(isPaid)
      this.#isPaid = isPaid
      this.#newestSlot = null
      this.#begin(0)
    }
    return this.#recent.isFull ? this.#recent.read(accounts) : null
  }

  #confirm(recent: RecentFees, update: SolanaUpdate): void {
    if (update.kind === 'transaction') {
      if (update.slot !== this.#open.slot) this.#begin(update.slot)
      this.#open.transactions++
      if (update.isVote) return
      const { message, loaded } = decodeMessageOf(update.info)
      recent.land(message, loaded)
    } else if (update.kind === 'block') this.#add(recent, update.meta)
    // A meta without its block: some of its transactions were lost.
    else if (update.kind === 'blockMeta' && update.slot > (this.#newestSlot ?? 0)) this.#forget()
  }

  #add(recent: RecentFees, { slot, parentSlot, executedTransactionCount }: BlockMetaUpdate): void {
    if (this.#newestSlot !== null && slot <= this.#newestSlot) return
    if (this.#open.slot !== slot) this.#begin(slot)
    if (this.#open.transactions !== executedTransactionCount) {
      this.#forget()
      return
    }
    if (parentSlot !== this.#newestSlot) recent.clear()
    recent.close(slot)
    this.#newestSlot = slot
  }

  #begin(slot: number): void {
    this.#open = { slot, transactions: 0 }
    this.#recent?.reset()
  }

  #forget(): void {
    this.#newestSlot = null
    this.#recent?.clear()
  }
}
