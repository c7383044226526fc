// Turns a result into an HTTP response.
//
//   chunks -> buffered while short -> ended: complete response with its status and summary
//                                  -> too long or too slow: streamed with backpressure
//                                     -> failed meanwhile: exception block, then the end
//
// Most results end while they are buffered, so that their errors get an error status.
import { withReturn } from '../../base/transport/content-encoding.ts'
import { Reply, type ResponseHead } from '../../base/transport/reply.ts'
import { exception, type QueryError } from '../../indexer/clickhouse/exceptions.ts'
import type { RelayedQuery } from '../../indexer/queries/relay.ts'

/** What is used of a query whose bytes arrive. */
export type Result = Pick<RelayedQuery, 'chunks' | 'failed'>

export interface AnswerShape {
  /** Nothing is sent before the end, as far as the result can be buffered. */
  readonly isWhole: boolean
  /** With the figures of the result so far. */
  head(): Promise<ResponseHead>
  failed(error: QueryError): Reply
  /** Marks the exception at the end of a streamed result. */
  readonly tag: string
  /** The end of a result that failed after its first bytes. */
  tail(error: QueryError): Uint8Array
  /** True when the client is gone. */
  isAbandoned(): boolean
  /** The rest will not be read: stops the query and releases its resources. Idempotent. */
  abandon(): void
  /** The response is sent or abandoned; called at least once. */
  ended(error: QueryError | null): void
}

const HELD_BYTES_MAX = 65_536
const HELD_MS_MAX = 250
const HELD_WHOLE_BYTES_MAX = 4_194_304

type Next = IteratorResult<Uint8Array>

export async function answerWith(result: Result, shape: AnswerShape): Promise<Reply> {
  const source = result.chunks[Symbol.asyncIterator]()
  const held: Uint8Array[] = []
  const bytesMax = shape.isWhole ? HELD_WHOLE_BYTES_MAX : HELD_BYTES_MAX
  const late = shape.isWhole ? null : after(HELD_MS_MAX)
  let pending = source.next()
  for (let bytes = 0; bytes < bytesMax; ) {
    const next = await (late === null ? pending : Promise.race([pending, late.passed]))
    if (next === null) break
    if (next.done === true) {
      late?.stop()
      return wholeAnswer(result, held, shape)
    }
    held.push(next.value)
    bytes += next.value.length
    pending = source.next()
  }
  late?.stop()
  pending.catch(() => {})
  if (shape.isAbandoned()) {
    source.return?.().catch(() => {})
    return shape.failed(exception('QUERY_WAS_CANCELLED', 'the client has left'))
  }
  const head = (await shape.head()).and('x-clickhouse-exception-tag', shape.tag)
  const chunks = streamed({ held, pending, source, result, shape })
  const body = withReturn(chunks, () => {
    shape.abandon()
    source.return?.().catch(() => {})
  })
  return new Reply(200, head, body)
}

async function wholeAnswer(
  result: Result,
  held: readonly Uint8Array[],
  shape: AnswerShape,
): Promise<Reply> {
  const error = result.failed()
  shape.ended(error)
  if (error !== null) return shape.failed(error)
  return new Reply(200, await shape.head(), Buffer.concat(held))
}

interface Streaming {
  readonly held: readonly Uint8Array[]
  readonly pending: Promise<Next>
  readonly source: AsyncIterator<Uint8Array>
  readonly result: Result
  readonly shape: AnswerShape
}

async function* streamed(streaming: Streaming): AsyncGenerator<Uint8Array> {
  const { held, pending, source, result, shape } = streaming
  let error: QueryError | null = null
  try {
    yield* held
    let next = await pending
    while (next.done !== true) {
      yield next.value
      next = await source.next()
    }
    error = result.failed()
    // Clients expect the block in one chunk.
    if (error !== null) yield shape.tail(error)
  } finally {
    shape.ended(error)
  }
}

function after(ms: number): { readonly passed: Promise<null>; stop(): void } {
  let timer: NodeJS.Timeout | undefined
  const passed = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms)
  })
  return { passed, stop: () => clearTimeout(timer) }
}
