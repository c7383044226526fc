// Calls per second of processor time through the proxy: the contenders of proxy.ts, judged by what
// the proxy itself used and not by the clock, for machines that are not at rest.
// Thread: main of the bench process; servers and client are processes of their own.
import { proxyBench } from '../lib/proxy-contenders.ts'

export const bench = proxyBench(
  'proxy-cpu',
  'How many getBalance calls per second of one core go through to a node and back?',
  { method: 'getBalance', connections: 64, by: 'cpu' },
)
