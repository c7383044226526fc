// Runs a landing test: sends each transfer through one route, watches which of them land.
// The rate is kept from the intended starts; a slow answer of a route delays nothing.
//
//   blockhash ─► sign ─► route (fetch) ─► accepted or refused
//   watch: signature, slot ─► landed          not seen within `waitMs`: not landed
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep, setTimeout as timeout } from 'node:timers/promises'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { decodeKey, encodeBase58, isSameKey } from '../../chain/solana/base58.ts'
import { Keypair } from '../../chain/solana/keypair.ts'
import {
  buildTransaction,
  transferInstruction,
  unitLimitInstruction,
  unitPriceInstruction,
} from '../../devnode/build.ts'
import { type Observer, type Subject, signatureKey } from '../race/observer.ts'
import { SeededRandom } from '../statistics.ts'
import type { Target } from '../target.ts'
import { sharedNowMs } from '../thread-clock.ts'
import { affordable, costOf, type Price, routeOrder, unitLimit } from './plan.ts'
import { callRpc, type RpcAddress } from './rpc-call.ts'

export type RouteTarget = Target<'tpu'>

interface LandOptions extends Price {
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

// The wallet of a landing test: read from a keypair file, or new and filled by an airdrop.
// The key never leaves this process; only signed transactions do.

const seedBytes = 32
const keypairBytes = 64
/** Below it the chain refuses a wallet that still has lamports (rent of an empty account). */
export const rentLamports = 890_880n
const airdropMsMax = 30_000
const balancePollMs = 100

/** Reads a file of `solana-keygen`: 64 numbers, the seed and the public key. */
export function readKeypair(path: string): Outcome<Keypair> {
  const bad = (why: string) => refuse('invalid', 'usage', `--keypair: ${path} ${why}`)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return bad('cannot be read')
  }
  const bytes = numbersIn(text)
  if (bytes === null) return bad(`is not a keypair file: a JSON list of ${keypairBytes} numbers`)
  const keypair = new Keypair(bytes.subarray(0, seedBytes))
  if (!isSameKey(keypair.publicKey, bytes.subarray(seedBytes)))
    return bad('is damaged: its two halves do not belong together')
  return accept(keypair)
}

function numbersIn(text: string): Buffer | null {
  try {
    const list: unknown = JSON.parse(text)
    const isList = Array.isArray(list) && list.length === keypairBytes
    const isBytes = (one: unknown) => Number.isInteger(one) && Number(one) >= 0 && Number(one) < 256
    return isList && list.every(isBytes) ? Buffer.from(list as number[]) : null
  } catch {
    return null
  }
}

/** A new wallet with that much from the node's faucet, once the node shows it. */
export async function airdroppedWallet(
  rpc: RpcAddress,
  lamports: bigint,
): Promise<Outcome<Keypair>> {
  const keypair = new Keypair(randomBytes(seedBytes))
  const asked = await callRpc(rpc, 'requestAirdrop', [addressOf(keypair), Number(lamports)])
  if (!asked.ok) return asked
  const endMs = performance.now() + airdropMsMax
  while (performance.now() < endMs) {
    const balance = await balanceOf(rpc, keypair)
    if (!balance.ok) return balance
    if (balance.value >= lamports) return accept(keypair)
    await sleep(balancePollMs)
  }
  return refuse('unavailable', 'airdrop', `did not pay the airdrop within ${airdropMsMax / 1000} s`)
}

export async function balanceOf(rpc: RpcAddress, keypair: Keypair): Promise<Outcome<bigint>> {
  const config = { commitment: 'processed' }
  const answer = await callRpc(rpc, 'getBalance', [addressOf(keypair), config])
  if (!answer.ok) return answer
  const { value } = answer.value as { readonly value?: unknown }
  if (typeof value === 'number') return accept(BigInt(value))
  return refuse('rejected', 'balance', 'answered getBalance without a balance')
}

function addressOf({ publicKey }: Keypair): string {
  return encodeBase58(publicKey)
}

interface TransferParts extends Price {
  readonly wallet: Keypair
  readonly blockhash: Uint8Array
  /** Makes the transaction unique: the amount that goes to the wallet itself. */
  readonly number: number
  /** Null: no tip. */
  readonly tipAccount: Uint8Array | null
}

/** A signed transfer of the wallet to itself, with a tip and a priority fee if asked for. */
export function signTransfer(parts: TransferParts): Uint8Array {
  const { wallet, blockhash, number, tipAccount, tipLamports, unitPrice } = parts
  const { publicKey } = wallet
  const budget = [unitLimitInstruction(unitLimit), unitPriceInstruction(unitPrice)]
  return buildTransaction({
    signers: [wallet],
    blockhash,
    instructions: [
      ...(unitPrice === 0n ? [] : budget),
      transferInstruction(publicKey, publicKey, BigInt(number)),
      ...(tipAccount === null ? [] : [transferInstruction(publicKey, tipAccount, tipLamports)]),
    ],
  })
}

// Watches for a wallet's transactions and for the current slot.
// Two subscriptions on one endpoint: transactions that name the wallet, and slots.

export const watchKinds = ['geyser', 'websocket'] as const
export type WatchTarget = Target<(typeof watchKinds)[number]>

interface Watch {
  /** The newest slot that the endpoint has shown. */
  slot(): number
  close(): void
}

interface WatchEvents {
  /** `key` as `signatureKey` makes it. */
  landed(key: string, slot: number, atMs: number): void
  /** The endpoint ended; what lands from now on is not seen. */
  lost(problem: string): void
}

const liveMsMax = 10_000

/** Resolves once both subscriptions are live and a slot is known. */
async function openWatch(
  { kind, url, token, label }: WatchTarget,
  account: string,
  events: WatchEvents,
): Promise<Outcome<Watch>> {
  // Loaded when it is needed: its clients would slow every command's start.
  const { openObserver } = await import('../race/observe.ts')
  const endpoint = { kind, url: url.href, token }
  const base = { accounts: [account], commitment: 'processed', pollMs: 0 } as const
  const observers: Observer[] = []
  let newest = -1
  let isOpen = false
  let deadline: NodeJS.Timeout | undefined
  const close = () => {
    for (const observer of observers) observer.close()
  }
  const outcome = await new Promise<Outcome<null>>((resolve) => {
    let live = 0
    const check = () => {
      if (live === 2 && newest >= 0) resolve(accept(null))
    }
    const problem = (text: string) => {
      if (isOpen) events.lost(`the watch ended: ${label} ${text}`)
      else resolve(refuse('unavailable', 'no-watch', `${label} ${text}`))
    }
    const open = (unit: Subject['unit'], saw: (key: string, slot: number, atMs: number) => void) =>
      observers.push(
        openObserver(
          endpoint,
          { ...base, unit },
          {
            live() {
              live += 1
              check()
            },
            saw,
            roundTrip() {},
            down: problem,
          },
        ),
      )
    open('transaction', (key, slot, atMs) => events.landed(key, slot, atMs))
    open('slot', (_, slot) => {
      newest = Math.max(newest, slot)
      check()
    })
    deadline = setTimeout(() => problem(`showed no slot within ${liveMsMax / 1000} s`), liveMsMax)
  })
  clearTimeout(deadline)
  if (!outcome.ok) {
    close()
    return outcome
  }
  isOpen = true
  return accept({ slot: () => newest, close })
}
