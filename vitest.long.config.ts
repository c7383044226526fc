import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { compiled, inDist } from './test/testkit/compiled.ts'
import { isSlice } from './test/testkit/slice.ts'

const files = (folder: string, names: readonly string[]) =>
  names.map((name) => `test/${folder}/${name}.test.ts`)

/** These load or measure the whole machine: one file at a time. */
const soaks = files('long', [
  'bench-load',
  'indexer-sandbox',
  'memory',
  'metrics-attack',
  'metrics-storm',
  'pubsub-crowd',
  'pubsub-memory',
  'shredstream-flood',
  'shredstream-load',
  'soak',
  'solana-rpc-abuse',
])

/** What every run of the whole check has time for: kills, restarts and faults, two minutes of it. */
const slice = files('long', [
  'break',
  'chain-restart',
  'clickhouse-lease',
  'clickhouse-sink-contract',
  'cluster-box',
  'command-live',
  'execution-death',
  'fuzz',
  'geyser-relay',
  'registry-kills',
  'signals',
  'simulate',
])
/** Pages in a browser. */
const pages = files('live', ['solana', 'states', 'views'])
/** The part of it with a PostgreSQL server: these share a process, and the data of an empty one. */
const clusterSlice = files('cluster', [
  'connection',
  'consumers',
  'event-log',
  'events',
  'lease-keeper',
  'leases',
  'ledger',
  'promotion',
  'registry',
  'usage',
])

/** Of the slice, each of which takes a third of its time: the others run beside them. */
const longest = ['simulate', 'fuzz', 'break'].map((name) => `/test/long/${name}.test.ts`)

class LongestFirst extends BaseSequencer {
  override async sort(all: TestSpecification[]): Promise<TestSpecification[]> {
    const isLongest = ({ moduleId }: TestSpecification) =>
      longest.some((name) => moduleId.endsWith(name))
    const sorted = await super.sort(all)
    return [...sorted.filter(isLongest), ...sorted.filter((one) => !isLongest(one))]
  }
}

/** Guards against a hang only: no test has one of its own below them. */
const limits = { testTimeout: 900_000, hookTimeout: 900_000 }
const slow = {
  extends: true as const,
  test: {
    name: 'slow',
    include: isSlice
      ? [...slice, ...pages]
      : ['test/long/**/*.test.ts', 'test/cluster/**/*.test.ts', ...pages],
    exclude: soaks,
    // One more than small machines have cores in the slice, which mostly waits for timeouts.
    maxWorkers: isSlice ? 3 : 2,
    sequence: { groupOrder: 0 },
    ...limits,
  },
}
const cluster = {
  extends: true as const,
  test: { ...slow.test, name: 'cluster', include: clusterSlice, isolate: false },
}
const soak = {
  extends: true as const,
  test: {
    name: 'soak',
    include: soaks,
    maxWorkers: 1,
    fileParallelism: false,
    sequence: { groupOrder: 1 },
    ...limits,
  },
}

/** Files of the short suite that make up few cases there, and all of them here. */
const tests = join(import.meta.dirname, 'test')
const cases = {
  extends: true as const,
  test: {
    ...slow.test,
    name: 'cases',
    include: readdirSync(tests, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.test.ts'))
      .filter((name) => readFileSync(join(tests, name), 'utf8').includes('caseCount('))
      .map((name) => `test/${name}`),
    env: { SLUICE_CASES: 'all' },
  },
}

// Everything slow: kills, restarts, other servers, whole recordings; then storms and soaks.
export default defineConfig({
  plugins: [compiled()],
  test: {
    server: { deps: { external: [inDist] } },
    globalSetup: ['test/testkit/compile.ts'],
    reporters: ['default'],
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    projects: isSlice ? [slow, cluster] : [slow, cases, soak],
  },
})
