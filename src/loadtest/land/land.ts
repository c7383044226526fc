// Runs a landing test: sends each transfer through one route, watches which of them land.
// The rate is kept from the intended starts; a slow answer of a route delays nothing.
//
//   blockhash ─► sign ─► route (fetch) ─► accepted or refused
//   watch: signature, slot ─► landed          not seen within `waitMs`: not landed
import { setTimeout as timeout } from 'node:timers/promises'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { decodeKey } from '../../chain/solana/base58.ts'
import type { Keypair } from '../../chain/solana/keypair.ts'
import { signatureKey } from '../race/observer.ts'
import { SeededRandom } from '../statistics.ts'
import type { Target } from '../target.ts'
import { sharedNowMs } from '../thread-clock.ts'
import { affordable, costOf, type Price, routeOrder } from './plan.ts'
import { callRpc, type RpcAddress } from './rpc-call.ts'
import { addressOf, signTransfer } from './wallet.ts'
import { openWatch, type Watch, type WatchTarget } from './watch.ts'

export type RouteTarget = Target<'tpu'>

export interface LandOptions extends Price {
  readonly routes: readonly RouteTarget[]
  readonly watch: WatchTarget
  readonly rpc: RpcAddress
  readonly wallet: Keypair
  /** Instead of what the routes name; empty: ask each route. */
  readonly tipAccounts: readonly Uint8Array[]
  readonly count: number
  readonly ratePerSecond: number
  /** How long a transaction may take to land. */
  readonly waitMs: number
  /** Lamports; null without a limit. */
  readonly spendMax: bigint | null
  readonly seed: number
  readonly signal: AbortSignal
  progress(sent: number, landed: number): void
}

/** A transaction that was sent. */
export interface Sent {
  readonly route: number
  readonly sentMs: number
  readonly slot: number
  /** Code of the route's refusal; null when it accepted or has not answered. */
  refusal: string | null
  answerMs: number | null
  landedSlot: number | null
  landedMs: number | null
}

export interface LandOutcome {
  readonly sent: readonly Sent[]
  readonly cost: bigint
  readonly partial: string | null
  readonly seconds: number
}

/** Well below the 150 slots for which a blockhash is valid, at any slot time. */
const blockhashEveryMs = 1_000
const blockhashAgeMsMax = 20_000
const pollMs = 20
const signatureAt = 1
const signatureEnd = 65

export async function runLand(options: LandOptions): Promise<Outcome<LandOutcome>> {
  const tips = await tipAccountsOf(options)
  if (!tips.ok) return tips
  const run = new LandRun(options, tips.value)
  const opened = await run.open()
  if (!opened.ok) return opened
  try {
    return accept(await run.run())
  } finally {
    run.close()
  }
}

class LandRun {
  readonly #options: LandOptions
  readonly #tips: readonly (readonly Uint8Array[])[]
  readonly #ended = new AbortController()
  readonly #sent: Sent[] = []
  /** Bounded by `count`. */
  readonly #pending = new Map<string, Sent>()
  readonly #random: SeededRandom
  #watch: Watch | null = null
  #blockhash: Uint8Array = new Uint8Array(0)
  #blockhashMs = 0
  #landed = 0

  constructor(options: LandOptions, tips: readonly (readonly Uint8Array[])[]) {
    this.#options = options
    this.#tips = tips
    this.#random = new SeededRandom(options.seed)
  }

  async open(): Promise<Outcome<null>> {
    const { watch, wallet, signal } = this.#options
    const fresh = await this.#refresh()
    if (!fresh.ok) return fresh
    const opened = await openWatch(watch, addressOf(wallet), {
      landed: (key, slot, atMs) => this.#sawLanded(key, slot, atMs),
      lost: (problem) => this.#ended.abort(problem),
    })
    if (!opened.ok) return opened
    this.#watch = opened.value
    const stop = () => this.#ended.abort(String(signal.reason))
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop)
    return accept(null)
  }

  close(): void {
    this.#watch?.close()
  }

  async run(): Promise<LandOutcome> {
    const { count, routes, ratePerSecond, spendMax } = this.#options
    const cost = costOf(this.#options)
    const order = routeOrder(count, routes.length, this.#random)
    const allowed = affordable(count, cost, spendMax)
    const startMs = sharedNowMs()
    const refreshing = setInterval(() => void this.#refresh(), blockhashEveryMs)
    for (const [number, route] of order.slice(0, allowed).entries()) {
      await this.#sleepUntil(startMs + (number * 1000) / ratePerSecond)
      if (this.#ended.signal.aborted) break
      this.#send(route, number)
      this.#options.progress(this.#sent.length, this.#landed)
    }
    clearInterval(refreshing)
    await this.#settle()
    const spent = allowed < count && !this.#ended.signal.aborted
    const stopped = this.#ended.signal.aborted ? String(this.#ended.signal.reason) : null
    const limit = `stopped at --spend-max after ${allowed} of ${count} transactions`
    const partial = stopped ?? (spent ? limit : null)
    return { sent: this.#sent, cost, partial, seconds: (sharedNowMs() - startMs) / 1000 }
  }

  #send(route: number, number: number): void {
    const { wallet, tipLamports, unitPrice, routes } = this.#options
    const tips = this.#tips[route]!
    const tipAccount = tips.length === 0 ? null : tips[this.#random.below(tips.length)]!
    const blockhash = this.#blockhash
    const bytes = signTransfer({
      wallet,
      blockhash,
      number: number + 1,
      tipAccount,
      tipLamports,
      unitPrice,
    })
    const sent: Sent = {
      route,
      sentMs: sharedNowMs(),
      slot: this.#watch!.slot(),
      refusal: null,
      answerMs: null,
      landedSlot: null,
      landedMs: null,
    }
    this.#sent.push(sent)
    this.#pending.set(signatureKey(bytes.subarray(signatureAt, signatureEnd)), sent)
    const text = Buffer.from(bytes).toString('base64')
    const params = [text, { encoding: 'base64', skipPreflight: true }]
    void callRpc(routes[route]!, 'sendTransaction', params).then((answer) => {
      sent.answerMs = sharedNowMs() - sent.sentMs
      if (!answer.ok) sent.refusal = answer.refusal.code
    })
  }

  #sawLanded(key: string, slot: number, atMs: number): void {
    const sent = this.#pending.get(key)
    if (sent === undefined || atMs - sent.sentMs > this.#options.waitMs) return
    this.#pending.delete(key)
    sent.landedSlot = slot
    sent.landedMs = atMs - sent.sentMs
    this.#landed += 1
  }

  /** Waits until all have landed, or the last one has had its time. */
  async #settle(): Promise<void> {
    const lastMs = this.#sent.at(-1)?.sentMs ?? 0
    const isOver = () => this.#pending.size === 0 || sharedNowMs() > lastMs + this.#options.waitMs
    while (!isOver() && !this.#ended.signal.aborted) {
      this.#options.progress(this.#sent.length, this.#landed)
      await timeout(pollMs)
    }
  }

  async #sleepUntil(atMs: number): Promise<void> {
    const signal = this.#ended.signal
    await timeout(Math.max(0, atMs - sharedNowMs()), undefined, { signal }).catch(() => {})
  }

  async #refresh(): Promise<Outcome<null>> {
    const { rpc } = this.#options
    const answer = await callRpc(rpc, 'getLatestBlockhash', [{ commitment: 'confirmed' }])
    const hash = answer.ok ? blockhashIn(answer.value) : null
    if (hash !== null) {
      this.#blockhash = hash
      this.#blockhashMs = sharedNowMs()
      return accept(null)
    }
    const why = answer.ok ? 'answered getLatestBlockhash without one' : answer.refusal.message
    const problem = `no blockhash: ${rpc.url.host} ${why}; give --rpc, a node that answers`
    if (sharedNowMs() - this.#blockhashMs > blockhashAgeMsMax) this.#ended.abort(problem)
    return refuse('unavailable', 'no-blockhash', problem)
  }
}

function blockhashIn(answer: unknown): Uint8Array | null {
  const { value } = answer as { readonly value?: { readonly blockhash?: unknown } }
  return typeof value?.blockhash === 'string' ? decodeKey(value.blockhash) : null
}

/** The tip accounts of each route; all empty without a tip. */
async function tipAccountsOf(options: LandOptions): Promise<Outcome<Uint8Array[][]>> {
  const { routes, tipAccounts, tipLamports } = options
  if (tipLamports === 0n) return accept(routes.map(() => []))
  if (tipAccounts.length > 0) return accept(routes.map(() => [...tipAccounts]))
  const found: Uint8Array[][] = []
  for (const route of routes) {
    const answer = await callRpc(route, 'getTipAccounts', [])
    if (!answer.ok && answer.refusal.kind === 'unavailable')
      return refuse('unavailable', 'no-route', `${route.label} ${answer.refusal.message}`)
    const keys = answer.ok ? keysIn(answer.value) : []
    if (keys.length === 0) {
      const hint = 'give --tip-account, or --tip 0 for a route that takes no tip'
      return refuse('invalid', 'usage', `${route.label} names no tip accounts: ${hint}`)
    }
    found.push(keys)
  }
  return accept(found)
}

function keysIn(answer: unknown): Uint8Array[] {
  if (!Array.isArray(answer)) return []
  return answer
    .map((text: unknown) => (typeof text === 'string' ? decodeKey(text) : null))
    .filter((key) => key !== null)
}
