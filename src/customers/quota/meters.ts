// Declares the meters of budgets. Endpoints count their refusals here.
import type { CounterChild, Meters } from '../../base/telemetry/meters.ts'
import type { Quota } from './quota.ts'

const meteredEndpoints = ['rpc', 'websocket', 'grpc', 'indexer'] as const
export type MeteredEndpoint = (typeof meteredEndpoints)[number]

const openEndpoints = ['metrics', 'grpc', 'tpu'] as const
type OpenEndpoint = (typeof openEndpoints)[number]

export interface QuotaMeters {
  /** Calls, batches, upgrades and queries refused because the budget is spent, by endpoint. */
  readonly refused: Readonly<Record<MeteredEndpoint, CounterChild>>
  /** Requests of an address that has spent its budget on the open endpoints, by endpoint. */
  readonly addressRefused: Readonly<Record<OpenEndpoint, CounterChild>>
}

export function declareQuotaMeters(meters: Meters, quota: Quota): QuotaMeters {
  meters.totalRead(
    'sluice_quota_flush_failures_total',
    'Usage flushes to the registry that failed',
    () => quota.flushesFailed(),
  )
  return {
    refused: meters.counters(
      'sluice_quota_refused_total',
      'Requests refused because the budget of the subscription is spent',
      'door',
      meteredEndpoints,
    ),
    addressRefused: meters.counters(
      'sluice_address_refused_total',
      'Requests on open endpoints refused because the budget of their address is spent',
      'door',
      openEndpoints,
    ),
  }
}
