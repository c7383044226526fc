// Which benches can be aimed at a running deployment, and why the others cannot. Thread: any. Pure.
// For any other load on a deployment there is `sluice bench load`.

const ownCpu = 'it divides by the CPU time of a server that it starts itself'
const ownFeed = 'it sends what the server is to pass on, at a pace of its own'
const ownRows = 'its questions need the rows that it wrote itself'
const beside = 'it compares ways to build one server, side by side'

/** Benches that take `--target` and `--token`. */
const accepting: ReadonlySet<string> = new Set(['rpc-endpoint'])

const reasons: Readonly<Record<string, string>> = {
  'cluster-cost': ownCpu,
  'cluster-latency': 'it kills gateways and revokes tokens',
  edge: 'it reads the memory of a server that it starts itself, and spends budgets',
  'execution-road': ownFeed,
  gateways: ownCpu,
  generator: 'it measures the generator of this machine',
  'geyser-ingest': ownFeed,
  'grpc-compression': ownCpu,
  'grpc-stream': ownFeed,
  'index-ingest': ownFeed,
  'index-stream': ownRows,
  'index-users': ownRows,
  observe: ownFeed,
  proxy: beside,
  'proxy-100kb': beside,
  'proxy-cpu': ownCpu,
  'proxy-latency': beside,
  'pubsub-latency': 'its transactions are of accounts that only its own chain has',
  record: ownCpu,
  'rpc-endpoint-cpu': ownCpu,
  'shred-fan-out': ownCpu,
  'shred-latency': ownFeed,
  'shred-pauses': ownFeed,
  'shred-receive': ownCpu,
  'slots-first': ownFeed,
  'stream-reads': ownCpu,
  'stream-reads-half': beside,
  tpu: ownCpu,
}

/** Undefined for a bench that takes `--target`. */
export function whyNoTarget(name: string): string | undefined {
  if (accepting.has(name)) return undefined
  return reasons[name] ?? 'it measures single functions in its own process'
}

/** True when the bench is named here: each bench of bench/load must be. */
export function isTargetDecided(name: string): boolean {
  return accepting.has(name) || Object.hasOwn(reasons, name)
}
