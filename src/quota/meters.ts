// The meters of the budgets. Thread: main. Doors count their refusals here.
import type { CounterChild, Meters } from '../telemetry/meters.ts'
import type { Quota } from './quota.ts'

const meteredDoors = ['rpc', 'websocket', 'grpc', 'indexer'] as const
export type MeteredDoor = (typeof meteredDoors)[number]

const openDoors = ['metrics', 'grpc', 'tpu'] as const
export type OpenDoor = (typeof openDoors)[number]

export interface QuotaMeters {
  /** Calls, batches, upgrades and queries refused for lack of budget, by door. */
  readonly refused: Readonly<Record<MeteredDoor, CounterChild>>
  /** Requests of an address that has used up its budget on the open endpoints, by endpoint. */
  readonly addressRefused: Readonly<Record<OpenDoor, CounterChild>>
}

export function declareQuotaMeters(meters: Meters, quota: Quota): QuotaMeters {
  const refused = meters.counter(
    'sluice_quota_refused_total',
    'Requests refused for lack of budget',
    { door: meteredDoors },
  )
  const addressRefused = meters.counter(
    'sluice_address_refused_total',
    'Requests on open endpoints refused because their address used up its budget',
    { door: openDoors },
  )
  meters.counterRead(
    'sluice_quota_flush_failures_total',
    'Times that use could not be written to the registry',
    {},
    () => [[{}, quota.flushesFailed()]],
  )
  return {
    refused: {
      rpc: refused.with({ door: 'rpc' }),
      websocket: refused.with({ door: 'websocket' }),
      grpc: refused.with({ door: 'grpc' }),
      indexer: refused.with({ door: 'indexer' }),
    },
    addressRefused: {
      metrics: addressRefused.with({ door: 'metrics' }),
      grpc: addressRefused.with({ door: 'grpc' }),
      tpu: addressRefused.with({ door: 'tpu' }),
    },
  }
}
