// What a proxy adds to the time of a call, one call after another on one connection.
// Thread: main of the bench process; servers and client are processes of their own.
import type { Bench } from '../lib/bench.ts'
import { verifyLoad } from '../lib/http-load.ts'
import { addedContender, nginx, node, ours } from '../lib/proxy-contenders.ts'

const asking = { method: 'getBalance' } as const

export const bench: Bench = {
  name: 'proxy-latency',
  question:
    'How many microseconds does the proxy add to a getBalance? (the latencies are the added)',
  cores: 3,
  baseline: addedContender(node, asking),
  candidates: [ours, nginx].map((name) => addedContender(name, asking)),
  goals: [{ contender: ours, to: nginx, figure: 'p50', atMost: 2 }],
  smoke: [ours],
  verify: verifyLoad,
}
