// Builds the answers of REST and /health, from the log and the execution pipeline.
// No sockets here. Payloads of the stream are served verbatim.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { packageRoot } from '../../base/package-root.ts'
import type { ReadyReport } from '../../base/readiness.ts'
import type { EventLog } from '../../streams/log/log.ts'
import type { ExecutionView } from '../../upstream/ports.ts'
import { type BlockRows, blocksMax } from './block-rows.ts'
import { parseU64 } from './handle.ts'
import { ageSecs, isServing, statusOf } from './health.ts'

/** What the execution events are: a reader must not take generated or recorded ones for a chain. */
export interface SourceName {
  readonly kind: 'generated' | 'recording' | 'ring'
  /** Name of the recording, without its folder. */
  readonly file?: string
}

export interface RestParts {
  readonly log: EventLog
  readonly view: ExecutionView
  readonly history: BlockRows
  readonly source: SourceName
  /** WebSockets that are open now. */
  clients(): number
  uptimeMs(): number
  ready(): ReadyReport
}

export interface Answer {
  readonly status: number
  /** The JSON text of the response. */
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

/** GET /v1/top: the newest TopAccesses, byte for byte as on the stream. */
export function top({ log }: RestParts): Answer {
  const frame = log.latest('TopAccesses')
  return frame === null ? error(404, 'no top accesses yet') : { status: 200, body: frame.payload }
}

/** Blocks that GET /v1/blocks returns without `last`. */
const blocksDefault = 600

/** The `last` of GET /v1/blocks; null when it is absent. */
export function parseLast(text: string | null): Outcome<number> {
  if (text === null) return accept(blocksDefault)
  const last = /^\d{1,4}$/.test(text) ? Number(text) : 0
  return last >= 1 && last <= blocksMax
    ? accept(last)
    : refuse('invalid', 'invalid_last', `last must be a number from 1 to ${blocksMax}`)
}

/** GET /v1/blocks: scalars of the newest blocks, oldest first, in pieces. */
export function* blocks({ history }: RestParts, last: number): Generator<Uint8Array> {
  yield Buffer.from('{"blocks":[')
  let isFirst = true
  for (const row of history.newest(last)) {
    if (!isFirst) yield comma
    isFirst = false
    yield row
  }
  yield Buffer.from(']}')
}

const comma = Buffer.from(',')

/** GET /v1/status. */
export function status({ log, view, source, clients, uptimeMs }: RestParts): Answer {
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
    chain_id: Number(view.chainId()),
    source: source.kind,
    ...(source.file === undefined ? {} : { source_file: source.file }),
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

/** GET /ready: 200 while this gateway takes new callers. */
export function readiness({ ready }: RestParts): Answer {
  const report = ready()
  return json(report.ready ? 200 : 503, report)
}

export function error(status: number, message: string): Answer {
  return json(status, { error: message })
}

function json(status: number, value: unknown): Answer {
  return { status, body: JSON.stringify(value) }
}

// Serves docs/openapi.json and docs/asyncapi.json: REST and JSON-RPC, and the event stream.
// Read on the first request and kept; the package contains docs/.

const names = ['openapi.json', 'asyncapi.json'] as const
export type DocumentName = (typeof names)[number]

/** Paths that serve a document; they need no token. */
export const documentPaths: readonly `/${DocumentName}`[] = names.map((name) => `/${name}` as const)

const kept = new Map<string, Answer>()

/** The document of a path; 404 where the package was installed without docs/. */
export function documentAt(path: `/${DocumentName}`): Answer {
  const known = kept.get(path) ?? read(path)
  kept.set(path, known)
  return known
}

function read(path: string): Answer {
  try {
    return { status: 200, body: readFileSync(join(packageRoot(), 'docs', path)) }
  } catch {
    return error(404, 'this installation has no documents')
  }
}
