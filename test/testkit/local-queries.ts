// The query program in the process of the test: an endpoint over an engine of the test's choice.
import { QueryHandler } from '../../src/indexer/queries/handler.ts'
import { greetingOf } from '../../src/indexer/queries/program.ts'
import { QueryRelay } from '../../src/indexer/queries/service.ts'
import { openResults } from './read-back.ts'
import { type ReadEngine, sendResults } from './send-results.ts'

/** Queries of an endpoint, answered by this engine. */
export async function localQueries(
  engine: ReadEngine,
): Promise<{ queries: QueryRelay; stop(): Promise<void> }> {
  const { results, stop } = await openResults()
  const sending = sendResults(engine, results.address)
  // As over a pipe: never during the call.
  const begin: QueryRelay['begin'] = (head) => void setImmediate(() => relay.begin(head))
  const handler = new QueryHandler({ engine: sending, logsSlow: true, begin })
  const calls: Readonly<Record<string, (input: never) => unknown>> = {
    // A frame would have copied it.
    query: (input: Parameters<QueryHandler['query']>[0]) =>
      handler.query({ ...input, body: Buffer.from(input.body) }),
    refuse: (input: Parameters<QueryHandler['refuse']>[0]) => handler.refuse(input),
    permit: (ticket: string) => handler.permit(ticket),
    cancel: (ticket: string) => handler.cancel(ticket),
    slowed: (pace: Parameters<QueryHandler['slowed']>[0]) => handler.slowed(pace),
    totals: (ticket: string) => handler.totals(ticket),
  }
  // Reason for the casts: each call gets what the relay sends it.
  const call = async <T>(name: string, input: unknown) => (await calls[name]!(input as never)) as T
  const relay = new QueryRelay({ call, steer: call }, results)
  relay.opened(greetingOf(sending))
  return { queries: relay, stop }
}
