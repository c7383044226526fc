// Calls per second through the proxy: a getBalance, which is all overhead.
// Thread: main of the bench process; servers and client are processes of their own.
import { proxyBench } from '../lib/proxy-contenders.ts'

export const bench = proxyBench(
  'proxy',
  'How many getBalance calls per second go through to a node and back?',
  { method: 'getBalance', connections: 64 },
)
