// The TPU Sender with its endpoint open, on an embedded chain or on upstreams of a test's choice.
import { join } from 'node:path'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { accept, type Outcome } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { VerifyPool } from '../../src/base/threads/verify-pool.ts'
import type { AddressLimits } from '../../src/customers/quota/config.ts'
import { AddressBudget } from '../../src/customers/quota/rates.ts'
import type { LocalChain } from '../../src/devnode/chain.ts'
import type { TpuSection } from '../../src/products/tpu/config.ts'
import { declareTpuMeters } from '../../src/products/tpu/meters.ts'
import { type RunningTpu, startTpu, type TpuDeps } from '../../src/products/tpu/server.ts'
import type { Fate, TransactionSender } from '../../src/upstream/ports.ts'
import { ChainStage } from './chain-stage.ts'

export const tpuDefaults: TpuSection = {
  enabled: true,
  host: '127.0.0.1',
  port: 0,
  tipAccounts: [],
  upstreams: [],
  whenDown: 'refuse',
  wait: false,
  inFlightPerAddress: 1_000,
}

/** As configured by default. */
export const budgetDefaults: AddressLimits = {
  workMsPerSecond: 25,
  workMsBurst: 500,
  bytesPerSecond: 8_388_608,
  bytesBurst: 67_108_864,
}

interface StageOptions {
  readonly limits?: AddressLimits
  readonly clock?: Clock
  readonly trustedProxies?: readonly string[]
  /** Knows tokens; none is valid unless given. */
  readonly gate?: TpuDeps['gate']
  /** Senders of dedicated sets by name. */
  readonly dedicated?: Readonly<Record<string, readonly TransactionSender[]>>
}

const closedGate: TpuDeps['gate'] = { admit: () => null, isExpired: () => false }

/** Submits to a chain in this process. */
class ChainSender implements TransactionSender {
  readonly name = 'chain'
  readonly #chain: LocalChain

  constructor(chain: LocalChain) {
    this.#chain = chain
  }

  isUp(): boolean {
    return true
  }

  async send(transaction: Uint8Array): Promise<Outcome<null>> {
    const submitted = this.#chain.submit(transaction, { isVerified: true })
    if (submitted.ok) return accept(null)
    const { err } = (submitted.refusal.data ?? {}) as { err?: unknown }
    return err === 'AlreadyProcessed' ? accept(null) : submitted
  }

  async fates(signatures: readonly Uint8Array[]): Promise<readonly (Fate | null)[]> {
    return signatures.map((signature) => {
      const status = this.#chain.ledger.signatureStatus(signature)
      return status && { slot: status.slot, isSuccess: status.err === null }
    })
  }

  async stop(): Promise<void> {}
}

export class TpuStage {
  readonly chain = new ChainStage()
  readonly meters = declareTpuMeters(new Meters())
  readonly #verifier = new VerifyPool({ log: silentLog })
  addressRefused = 0
  tpu: RunningTpu = null as unknown as RunningTpu

  get url(): string {
    return `http://127.0.0.1:${this.tpu.address!.port}`
  }

  /** On the chain unless other senders are given. */
  async start(
    section: Partial<TpuSection> = {},
    senders?: readonly TransactionSender[],
    options: StageOptions = {},
  ): Promise<void> {
    const { limits = budgetDefaults, clock = systemClock, trustedProxies = [] } = options
    await this.chain.start()
    const { chain, hub } = this.chain
    const { ledger } = chain
    this.tpu = await startTpu(
      { ...tpuDefaults, ...section },
      {
        senders: senders ?? [new ChainSender(chain)],
        hub: senders === undefined ? hub : null,
        slot: () => (senders === undefined ? ledger.slot(0) : null),
        isBlockhashValid: (hash) =>
          senders === undefined ? ledger.isBlockhashValid(hash, 0) : null,
        gate: options.gate ?? closedGate,
        dedicated: (set) => {
          const own = options.dedicated?.[set]
          if (own === undefined) return null
          return { senders: own, hub: null, slot: () => null, isBlockhashValid: () => null }
        },
        verifier: this.#verifier,
        meters: this.meters,
        addressBudget: new AddressBudget(limits, clock),
        addressRefused: { inc: () => void this.addressRefused++ },
        tipAccountsPath: join(this.chain.folder, 'tip-accounts.json'),
        version: { 'solana-core': '4.0.0', 'feature-set': 0, sluice: '0' },
        tls: null,
        trustedProxies,
        clock,
        log: silentLog,
      },
    )
  }

  async dispose(): Promise<void> {
    await this.tpu?.stop()
    await this.#verifier.stop()
    await this.chain.dispose()
  }

  async post(path: string, type: string, body: Uint8Array | string) {
    const answer = await fetch(`${this.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': type },
      body,
    })
    const text = await answer.text()
    return { status: answer.status, headers: answer.headers, json: JSON.parse(text) }
  }

  /** sendTransaction over JSON-RPC in base64. */
  send(bytes: Uint8Array, options: object = {}, path = '/') {
    const params = [Buffer.from(bytes).toString('base64'), { encoding: 'base64', ...options }]
    return this.call('sendTransaction', params, path)
  }

  call(method: string, params: unknown[] = [], path = '/') {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method, params })
    return this.post(path, 'application/json', body)
  }
}
