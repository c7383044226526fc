// Calls per second through the proxy: a getAccountInfo of 100 kB, which is mostly bytes.
// Thread: main of the bench process; servers and client are processes of their own.
import { proxyBench } from '../lib/proxy-contenders.ts'

export const bench = proxyBench(
  'proxy-100kb',
  'How many answers of 100 kB per second go through to a node and back?',
  { method: 'getAccountInfo', connections: 32 },
)
