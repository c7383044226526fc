// Answers calls from what the stream of a set has shown, as a node would.
// Synchronous: an answer, or null for a call that a node has to answer. Never an error: a node
// words its own refusals.
//
//   hub ─► heads, accounts, blocks, fees ─► methods of solana-rpc ─► answer, kept until a head
//   moves
import { Commitment } from '../../base/commitment.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import { newestShapes, type Shapes, shapesOf } from '../../chain/solana/version.ts'
import { accountMethods } from '../../chain/solana-rpc/account-methods.ts'
import { feeMethods } from '../../chain/solana-rpc/fee-methods.ts'
import { historyMethods } from '../../chain/solana-rpc/history-methods.ts'
import { slotMethods } from '../../chain/solana-rpc/slot-methods.ts'
import type { Answering } from '../../chain/solana-rpc/view.ts'
import type { StreamAnswer } from '../../upstream/ports.ts'
import { Heads } from '../geyser/heads.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import { AccountCache, type AccountCacheDeps } from './account-cache.ts'
import { RecentBlocks } from './recent-blocks.ts'
import { StreamFees, StreamLedger } from './stream-ledger.ts'

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
