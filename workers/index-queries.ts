// Child process of the gateway that answers its queries: reads SQL and runs the engine.
// Thread: main of its own process.

import { serveFrames } from '../src/base/threads/frames.ts'
import { QueryProgram, type QueryProgramConfig } from '../src/indexer/queries/program.ts'
import type { QueryRequest } from '../src/indexer/queries/protocol.ts'

const program = new QueryProgram({
  begin: (head) => service.push('begin', head),
  report: (report) => service.push('report', report),
  log: (line) => service.push('log', line),
})

const service = serveFrames(
  {
    open: (config: QueryProgramConfig) => program.open(config),
    query: (request: QueryRequest) => program.handler.query(request),
    refuse: (request: QueryRequest) => program.handler.refuse(request),
    permit: (ticket: string) => program.handler.permit(ticket),
    cancel: (ticket: string) => program.handler.cancel(ticket),
    totals: (ticket: string) => program.handler.totals(ticket),
    slowed: (pace: { ticket: string; isSlow: boolean }) => program.handler.slowed(pace),
  },
  () => program.stop(),
)
