// Calls per second of processor time through the rpc endpoint: the contenders of rpc-endpoint.ts,
// judged by what the server process used and not by the clock, for machines that are not at rest.
// Thread: main of the bench process; servers and client are processes of their own.
import type { Bench } from '../lib/bench.ts'
import { verifyLoad } from '../lib/http-load.ts'
import { bare, node, ours, serverContender } from './rpc-endpoint.ts'

export const bench: Bench = {
  name: 'rpc-endpoint-cpu',
  question: 'How many authenticated calls does the rpc endpoint answer per second of one core?',
  cores: 2,
  baseline: serverContender(bare, 'bare', 'cpu'),
  candidates: [serverContender(ours, 'ours', 'cpu'), serverContender(node, 'node', 'cpu')],
  goals: [
    { contender: ours, to: bare, figure: 'opsPerSecond', atLeast: 0.75 },
    { contender: ours, to: node, figure: 'opsPerSecond', atLeast: 2.5 },
  ],
  smoke: [ours],
  verify: verifyLoad,
}
