import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

const unitTests = join(import.meta.dirname, 'test', 'unit')
/** Files that replace a module, which lasts as long as their process. */
const mocks = readdirSync(unitTests, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .filter((name) => readFileSync(join(unitTests, name), 'utf8').includes('vi.mock('))
  .map((name) => `test/unit/${name}`)
const unit = 'test/unit/**/*.test.ts'
/**
 * Files that change nothing of their process: their stages open and close in it, or they start
 * processes. They share one, too: to load what they test takes most of them longer than to run.
 */
const integration = [
  ...['bench-load-kinds', 'bundle-golden', 'chain', 'chain-epochs', 'chain-replay'],
  ...['chain-traffic', 'clickhouse-sink', 'client-socket', 'command', 'command-context'],
  ...['command-golden', 'command-provisioning', 'command-strangers', 'config-secrets'],
  ...['dashboards', 'data-lock'],
  ...['devnode-epochs', 'devnode-execution', 'devnode-parsed', 'devnode-rpc', 'devnode-slots'],
  ...['devnode-token-2022', 'devnode-v1', 'doctor-ports', 'execution-sources', 'geyser-ingest'],
  ...['grpc-chains', 'grpc-compression', 'grpc-endpoint', 'grpc-golden', 'grpc-pings'],
  ...['grpc-reflection', 'grpc-slow', 'grpc-stream', 'grpc-wire', 'grpc-yellowstone'],
  ...['http-endpoint', 'index-columns', 'index-execution', 'index-formats', 'index-solana'],
  ...['indexer-credentials', 'indexer-endpoint', 'indexer-format-errors', 'indexer-golden'],
  ...['indexer-malformed', 'indexer-queries', 'malformed', 'metrics-auth', 'metrics-client'],
  ...['metrics-http', 'metrics-limits', 'metrics-page', 'metrics-stream', 'node-secrets'],
  ...['operator-socket', 'pubsub', 'pubsub-chains', 'pubsub-golden', 'pubsub-limits'],
  ...['query-database', 'query-pool', 'registry', 'registry-expired', 'ring-file', 'rpc'],
  ...['rpc-proxy', 'rpc-proxy-sends', 'shredstream', 'socket-endpoint'],
  ...['stream-answers', 'tls', 'tpu', 'tpu-budget', 'tpu-dedicated'],
  ...['tpu-upstream', 'upstream-nodes', 'upstream-senders', 'websocket'],
].map((name) => `test/integration/${name}.test.ts`)
/** Of those of whole servers all but these: they replace modules, or listen to their process. */
const ownProcess = ['devnode', 'devnode-full-disk', 'npm-start', 'upstream']
const e2e = readdirSync(join(import.meta.dirname, 'test', 'e2e'))
  .filter((name) => !ownProcess.includes(name.replace('.test.ts', '')))
  .map((name) => `test/e2e/${name}`)
const shared = [...integration, ...e2e]

// The short suite: unit, stress, integration, pages and end-to-end.
// One worker more than small machines have cores: a third of its time a test waits, for processes,
// timers and the disk.
// The timeouts only guard against a hang, on any machine: no test has one of its own below them.
// Forks, not threads: a uWebSockets.js app left open in a thread aborts the process.
export default defineConfig({
  test: {
    globalSetup: ['test/testkit/compile.ts'],
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ['default'],
    projects: [
      {
        extends: true,
        test: {
          name: 'rest',
          include: ['test/**/*.test.ts'],
          exclude: ['test/long/**', 'test/cluster/**', unit, ...shared],
        },
      },
      // These files share a process: most of them take less time than to load what they test.
      {
        extends: true,
        test: { name: 'unit', include: [unit], exclude: mocks, isolate: false },
      },
      {
        extends: true,
        test: {
          name: 'shared',
          include: shared,
          isolate: false,
          setupFiles: ['test/testkit/nothing-left.ts'],
        },
      },
      { extends: true, test: { name: 'mocks', include: mocks } },
    ],
  },
})
