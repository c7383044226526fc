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
 * Files whose stages open and close in the process of the test, and that change nothing else of it.
 * They share a process, too: to load what they test takes most of them longer than to run.
 */
const stages = [
  ...['bundle-golden', 'chain-epochs', 'chain-traffic', 'clickhouse-sink', 'devnode-execution'],
  ...['doctor-ports', 'execution-sources', 'geyser-ingest', 'grpc-chains', 'grpc-compression'],
  ...['grpc-golden', 'grpc-pings', 'grpc-reflection', 'grpc-stream', 'grpc-yellowstone'],
  ...['http-endpoint', 'index-execution', 'index-formats', 'index-solana'],
  ...['indexer-credentials', 'indexer-endpoint', 'indexer-format-errors', 'indexer-golden'],
  ...['indexer-malformed', 'indexer-queries', 'metrics-auth', 'metrics-http', 'metrics-page'],
  ...['metrics-stream', 'node-secrets', 'pubsub', 'pubsub-chains', 'pubsub-golden'],
  ...['pubsub-limits', 'query-database', 'query-pool', 'registry', 'registry-expired'],
  ...['ring-file', 'rpc', 'rpc-proxy', 'rpc-proxy-sends', 'shredstream', 'socket-endpoint'],
  ...['solana-rpc-golden', 'stream-answers', 'tls', 'tpu', 'tpu-dedicated', 'tpu-upstream'],
  'upstream-senders',
].map((name) => `test/integration/${name}.test.ts`)

// The short suite: unit, stress, integration, pages and end-to-end.
// As many workers as small machines have cores: most tests start processes of their own.
// The timeouts only guard against a hang, on any machine: no test has one of its own below them.
// Forks, not threads: a uWebSockets.js app left open in a thread aborts the process.
export default defineConfig({
  test: {
    globalSetup: ['test/testkit/compile.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ['default'],
    projects: [
      {
        extends: true,
        test: {
          name: 'rest',
          include: ['test/**/*.test.ts'],
          exclude: ['test/long/**', 'test/cluster/**', unit, ...stages],
        },
      },
      // These files share a process: most of them take less time than to load what they test.
      {
        extends: true,
        test: { name: 'unit', include: [unit], exclude: mocks, isolate: false },
      },
      { extends: true, test: { name: 'stages', include: stages, isolate: false } },
      { extends: true, test: { name: 'mocks', include: mocks } },
    ],
  },
})
