// Starts the TPU Sender and opens its endpoint.
//
//   HTTP -> address budget -> routes.ts: body
//        -> TpuHandler: decode, tip, duplicate, rates
//        -> verify workers -> Forwarder -> all upstreams in parallel -> reply
//                                ^-- hub: landed in a block
//
// No token is needed: the tip is the authorization. The token of a dedicated node sends its
// transactions to its own set; a bad one is 401, and nothing is sent. Requests are never logged.
import { Fault } from '../../base/errors.ts'
import { Answerer } from '../../base/jsonrpc/serve.ts'
import type { Running } from '../../base/running.ts'
import { faultReport } from '../../base/telemetry/log.ts'
import type { CounterChild } from '../../base/telemetry/meters.ts'
import { type EndpointDeps, openHttpEndpoint } from '../../base/transport/http-endpoint.ts'
import type { Request } from '../../base/transport/request.ts'
import type { Gate } from '../../customers/auth/gate.ts'
import { tokenIn } from '../../customers/auth/token.ts'
import type { AddressBudget } from '../../customers/quota/rates.ts'
import type { TpuSection } from './config.ts'
import { Forwarder, TipLog, type TipRow, type TpuUpstream } from './forward.ts'
import { TpuHandler, type TpuHandlerDeps } from './handle.ts'
import type { TpuMeters } from './meters.ts'
import { type Target, tpuMethods } from './methods.ts'
import {
  AddressCost,
  type Arrival,
  endpointError,
  headFor,
  preflightHead,
  refusedToken,
  tpuRoutes,
} from './routes.ts'
import { keptTipAccounts, TipAccounts } from './tip.ts'

export interface TpuDeps extends TpuUpstream, EndpointDeps {
  readonly gate: Pick<Gate, 'admit' | 'isExpired'>
  /** The set that a dedicated node is bound to; null when it is not configured. */
  readonly dedicated: (set: string) => TpuUpstream | null
  readonly verifier: TpuHandlerDeps['verifier']
  readonly meters: TpuMeters
  readonly addressBudget: Pick<AddressBudget, 'admit'>
  /** Requests refused because their address is over its budget. */
  readonly addressRefused: CounterChild
  /** File of the generated tip accounts. */
  readonly tipAccountsPath: string
  readonly version: Readonly<Record<string, unknown>>
}

export interface RunningTpu extends Running {
  tipAccounts(): readonly string[]
  /** Replaces the tip accounts; an empty list keeps the current ones. */
  changeTipAccounts(texts: readonly string[]): void
  /** For the operator: totals and the last outcomes, newest first. */
  report(count: number): TipReport
  /**
   * Calls the listener with every outcome of a transaction; returns a function that removes it.
   */
  listen(listener: (row: TipRow) => void): () => void
}

export interface TipReport {
  readonly accepted: number
  readonly duplicates: number
  readonly landed: number
  readonly expired: number
  readonly failed: number
  /** Sum of the tips that landed. */
  readonly tipLamports: number
  readonly rejected: Readonly<Record<string, number>>
  readonly last: readonly (Omit<TipRow, 'lamports'> & { readonly lamports: string })[]
}

export async function startTpu(section: TpuSection, deps: TpuDeps): Promise<RunningTpu> {
  const log = deps.log.area('tpu')
  const { clock, meters } = deps
  const accounts = new TipAccounts(firstAccounts(section, deps.tipAccountsPath))
  const tips = new TipLog()
  const { wait, whenDown } = section
  const targets = new Targets(deps, (upstream) => {
    const forwarder = new Forwarder({ ...deps, ...upstream, tips, wait, whenDown })
    return { forwarder, handler: new TpuHandler({ ...deps, accounts, forwarder, tips }) }
  })
  const cost = new AddressCost(deps)
  const methods = tpuMethods({ ...deps, accounts })
  const answerer = new Answerer(methods.call, faultReport(log, 'method failed'))
  const endpoint = await openHttpEndpoint<Arrival>({
    ...deps,
    product: 'tpu',
    listen: { ...section, isShared: deps.sharePorts },
    http: {
      limit: (request) => cost.head(request),
      admit(request) {
        const target = targets.of(request)
        if (target === null) return refusedToken(request, { isExpired: deps.gate.isExpired() })
        return { beganMs: clock.monotonicMs(), head: headFor(request), target }
      },
      preflight: preflightHead,
      inFlightPerAddressMax: section.inFlightPerAddress,
      error: endpointError,
      routes: tpuRoutes({ answerer, accounts, meters, cost }),
    },
    log,
  })
  return {
    address: endpoint.address,
    tipAccounts: () => accounts.texts,
    changeTipAccounts(texts) {
      if (texts.length === 0 || texts.join() === accounts.texts.join()) return
      accounts.replace(texts)
      log.info('tip accounts reloaded', { count: texts.length })
    },
    report: (count) => ({
      accepted: meters.accepted.value,
      duplicates: meters.duplicates.value,
      landed: meters.endings.landed.value,
      expired: meters.endings.expired.value,
      failed: meters.endings.failed.value,
      tipLamports: meters.tipsLanded.value,
      rejected: Object.fromEntries(meters.rejected.read()),
      last: tips.last(count).map((row) => ({ ...row, lamports: String(row.lamports) })),
    }),
    listen: (listener) => tips.listen(listener),
    async stop() {
      await endpoint.stop()
      await targets.stop()
    },
  }
}

interface Opened {
  readonly forwarder: Forwarder
  readonly handler: TpuHandler
}

/** The upstreams of all callers, and one for each dedicated set from its first caller on. */
class Targets {
  readonly #deps: TpuDeps
  readonly #open: (upstream: TpuUpstream) => Opened
  readonly #shared: Target & Opened
  readonly #dedicated = new Map<string, Target & Opened>()

  constructor(deps: TpuDeps, open: (upstream: TpuUpstream) => Opened) {
    this.#deps = deps
    this.#open = open
    this.#shared = this.#start(deps)
    deps.meters.watch(() => this.#all().map(({ forwarder }) => forwarder))
  }

  /** Where the caller's transactions go; null for a token that is not valid. */
  of(request: Request): Target | null {
    const { credentials } = request
    if (tokenIn('tpu', credentials) === null && credentials.repeated !== true) return this.#shared
    const principal = this.#deps.gate.admit('tpu', credentials, request)
    if (principal === null) return null
    const { upstream: set } = principal.subscription
    if (set === null) return this.#shared
    const known = this.#dedicated.get(set)
    if (known !== undefined) return known
    const made = this.#start(this.#deps.dedicated(set) ?? { ...this.#deps, senders: [] })
    this.#dedicated.set(set, made)
    return made
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all().map(({ forwarder }) => forwarder.stop()))
  }

  #all(): readonly Opened[] {
    return [this.#shared, ...this.#dedicated.values()]
  }

  #start(upstream: TpuUpstream): Target & Opened {
    const opened = this.#open(upstream)
    opened.forwarder.start()
    return { ...opened, isUp: () => opened.forwarder.isUp }
  }
}

function firstAccounts(section: TpuSection, path: string): readonly string[] {
  if (section.tipAccounts.length > 0) return section.tipAccounts
  // The generated accounts have no owner: real tips must not go there.
  if (section.upstreams.length > 0)
    throw new Fault('tip-accounts', 'tpu.upstreams is set: set tpu.tipAccounts, too')
  return keptTipAccounts(path)
}
