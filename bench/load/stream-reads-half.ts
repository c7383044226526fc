// Latency of hot reads that the stream answers at half the load that the server can take: requests
// begin at a constant rate, and a latency counts from the moment its request was due.
// Thread: main of the bench process; servers and client are processes of their own.
import type { Bench } from '../lib/bench.ts'
import { verifyLoad } from '../lib/http-load.ts'
import { bare, serverContender } from './rpc-endpoint.ts'
import { streamContenders } from './stream-reads.ts'

export const bench: Bench = {
  name: 'stream-reads-half',
  question: 'How long does a hot read take at half load? (goal: p99 under 1,000 us on quiet cores)',
  cores: 2,
  baseline: serverContender(bare, 'bare', 'half'),
  candidates: streamContenders('half'),
  smoke: ['getBalance'],
  verify: verifyLoad,
}
