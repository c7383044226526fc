// The indexer's endpoint over a fake engine, with a customer and a plain HTTP client.
import { expect } from 'vitest'
import { type LogFields, silentLog } from '../../src/base/telemetry/log.ts'
import type { PlanValues } from '../../src/customers/subscriptions/plans.ts'
import type { AddRequest } from '../../src/customers/subscriptions/subscription.ts'
import type { UsageFact } from '../../src/indexer/feed-items.ts'
import { declareIndexerMeters, type IndexerMeters } from '../../src/indexer/meters.ts'
import { Bundle, noRefill } from './bundle.ts'
import { FakeEngine } from './fake-engine.ts'

export const planLimits = {
  timeMs: 10_000,
  rows: 100_000,
  resultBytes: 64_000_000,
  memoryBytes: 512_000_000,
  queries: 2,
  queued: 16,
  queueMs: 2_000,
}

export interface Asked {
  readonly body?: string | Buffer
  readonly query?: Record<string, string>
  readonly headers?: Record<string, string>
  readonly method?: string
  readonly path?: string
  /** Credentials of another customer. */
  readonly as?: Record<string, string>
}

export class IndexerStage {
  readonly engine = new FakeEngine()
  readonly meters: IndexerMeters
  readonly usage: UsageFact[] = []
  readonly logged: LogFields[] = []
  readonly bundle: Bundle
  url = ''
  port = 0
  credentials: Record<string, string> = {}

  constructor(plans: Readonly<Record<string, Partial<PlanValues>>> = {}) {
    this.bundle = new Bundle(plans, noRefill)
    this.meters = declareIndexerMeters(this.bundle.meters)
  }

  /** `cors`: origins whose pages may query; `section`: other keys of the configuration. */
  async open(
    cors: readonly string[] = ['https://app.example.com'],
    section: object = {},
  ): Promise<void> {
    const log = {
      ...silentLog,
      info: (_: string, fields?: LogFields) => void this.logged.push(fields ?? {}),
    }
    const endpoint = await this.bundle.openIndexer({
      engine: this.engine,
      meters: this.meters,
      usage: (fact) => void this.usage.push(fact),
      freshness: () => ({ slot: 7, slotAgeMs: 12.4, block: 9, blockAgeMs: null }),
      log: { ...log, area: () => log },
      section: { slowQueryMs: 50, cors, ...section },
    })
    this.port = endpoint.port
    this.url = `http://127.0.0.1:${endpoint.port}`
    this.credentials = this.issue()
  }

  /** Headers of a new customer. */
  issue(request: Partial<AddRequest> = {}): Record<string, string> {
    const { token, indexer } = this.bundle.issue({ products: ['indexer'], ...request })
    const pair = Buffer.from(`${indexer!.user}:${indexer!.password}`).toString('base64')
    return { authorization: `Basic ${pair}`, 'x-token': token }
  }

  async ask(asked: Asked = {}) {
    const { body, query = {}, headers = {}, method = body === undefined ? 'GET' : 'POST' } = asked
    const parameters = new URLSearchParams(query)
    const answer = await fetch(`${this.url}${asked.path ?? '/'}?${parameters}`, {
      method,
      headers: { ...(asked.as ?? this.credentials), ...headers },
      ...(body === undefined ? {} : { body }),
    })
    const text = await answer.text()
    return { status: answer.status, headers: answer.headers, text }
  }

  /** Status, code and name of an answer that must be an exception. */
  async code(asked: Asked): Promise<[status: number, code: number, name: string]> {
    const { status, headers, text } = await this.ask(asked)
    const told = /^Code: (\d+)\. DB::Exception: .+\. \(([A-Z_]+)\)\n$/s.exec(text)
    expect(headers.get('x-clickhouse-exception-code')).toBe(told?.[1])
    return [status, Number(told?.[1]), told?.[2] ?? '']
  }
}
