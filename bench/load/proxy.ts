// Calls per second through the proxy: a getBalance, which is all overhead.
// Thread: main of the bench process; servers and client are processes of their own.
import type { Bench } from '../lib/bench.ts'
import { verifyLoad } from '../lib/http-load.ts'
import { contender, direct, nginx, node, ours } from '../lib/proxy-contenders.ts'

const asking = { method: 'getBalance', connections: 64 } as const

export const bench: Bench = {
  name: 'proxy',
  question: 'How many getBalance calls per second go through to a node and back?',
  cores: 3,
  baseline: contender(node, asking),
  candidates: [ours, nginx, direct].map((name) => contender(name, asking)),
  goals: [
    { contender: ours, to: node, figure: 'opsPerSecond', atLeast: 1.8 },
    { contender: ours, to: nginx, figure: 'opsPerSecond', atLeast: 0.25 },
  ],
  verify: verifyLoad,
}
