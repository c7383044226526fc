// Builds the answers of REST and /health, from the log and the execution pipeline.
// Thread: main. No sockets here. Payloads of the stream are served verbatim.

import type { EventLog } from '../../stream/log.ts'
import type { ExecutionView } from '../../upstream/ports.ts'
import { parseU64 } from './handle.ts'
import { ageSecs, isServing, statusOf } from './health.ts'

export interface RestParts {
  readonly log: EventLog
  readonly view: ExecutionView
  /** WebSockets that are open now. */
  clients(): number
  uptimeMs(): number
}

export interface Answer {
  readonly status: number
  /** JSON. */
  readonly body: string | Buffer
}

/** GET /v1/tps. 0 before the first block. */
export function tps({ log }: RestParts): Answer {
  const value = log.latest('TPS')?.payload.toString() ?? '0'
  return { status: 200, body: `{"tps":${value}}` }
}

/** GET /v1/contention: the newest ContentionData, byte for byte as on the stream. */
export function contention({ log }: RestParts): Answer {
  const frame = log.latest('ContentionData')
  return frame === null
    ? error(404, 'no contention data yet')
    : { status: 200, body: frame.payload }
}

/** GET /v1/status. */
export function status({ log, view, clients, uptimeMs }: RestParts): Answer {
  const ageMs = view.lastEventAgeMs()
  return json(200, {
    status: statusOf(ageMs),
    block_number: view.latestBlock(),
    connected_clients: clients(),
    uptime_secs: ageSecs(uptimeMs()),
    last_event_age_secs: ageSecs(ageMs),
    ring_seqno: view.ringSeqno(),
    oldest_seqno: log.oldestSeq,
    newest_seqno: log.newestSeq,
  })
}

/** GET /v1/blocks/lifecycle. */
export function lifecycles({ view }: RestParts): Answer {
  return json(200, view.lifecycles())
}

/** GET /v1/blocks/:number/lifecycle. A number beyond 2^53 is valid but matches no block. */
export function lifecycle({ view }: RestParts, text: string): Answer {
  const number = parseU64(text)
  if (number === null) return error(400, 'invalid block number')
  const record = number > Number.MAX_SAFE_INTEGER ? null : view.lifecycle(Number(number))
  return record === null ? error(404, 'block not found') : json(200, record)
}

/** GET /health: 200 until the last event is 30 s old. */
export function health({ view }: RestParts): Answer {
  const ageMs = view.lastEventAgeMs()
  const healthy = isServing(ageMs)
  return json(healthy ? 200 : 503, {
    jsonrpc: '2.0',
    result: { healthy, number: view.latestBlock(), last_event_age_secs: ageSecs(ageMs) },
  })
}

export function error(status: number, message: string): Answer {
  return json(status, { error: message })
}

function json(status: number, value: unknown): Answer {
  return { status, body: JSON.stringify(value) }
}
