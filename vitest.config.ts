import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { compiled, inDist } from './test/testkit/compiled.ts'

const unitTests = join(import.meta.dirname, 'test', 'unit')
/** Files that replace a module, which lasts as long as their process. */
const mocks = readdirSync(unitTests, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .filter((name) => readFileSync(join(unitTests, name), 'utf8').includes('vi.mock('))
  .map((name) => `test/unit/${name}`)
const unit = 'test/unit/**/*.test.ts'
/**
 * Files of servers and products that replace modules, or change, measure or listen to their
 * process. All others share one: to load what they test takes most of them longer than to run.
 */
const ownProcess = new Set([
  ...['e2e/devnode', 'e2e/devnode-full-disk', 'e2e/npm-start', 'e2e/upstream'],
  ...['integration/bench-load', 'integration/broken-invariants', 'integration/geyser-client'],
  ...['integration/grpc-strangers', 'integration/indexer-duckdb', 'integration/pubsub-resume'],
  'integration/pubsub-upstream',
])
const shared = ['e2e', 'integration'].flatMap((folder) =>
  readdirSync(join(import.meta.dirname, 'test', folder))
    .filter((name) => name.endsWith('.test.ts'))
    .filter((name) => !ownProcess.has(`${folder}/${name.replace('.test.ts', '')}`))
    .map((name) => `test/${folder}/${name}`),
)

// The short suite: unit, stress, integration and end-to-end. Pages in a browser are tests of the long
// one, and of the slice of it that every check runs.
// Two workers more than small machines have cores: a third of its time a test waits, for processes,
// timers and the disk.
// The timeouts only guard against a hang, on any machine: no test has one of its own below them.
// Forks, not threads: a uWebSockets.js app left open in a thread aborts the process.
export default defineConfig({
  test: {
    server: { deps: { external: [inDist] } },
    globalSetup: ['test/testkit/compile.ts'],
    pool: 'forks',
    maxWorkers: 4,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ['default'],
    projects: [
      {
        extends: true,
        plugins: [compiled()],
        test: {
          name: 'rest',
          include: ['test/**/*.test.ts'],
          exclude: ['test/long/**', 'test/cluster/**', 'test/live/**', unit, ...shared],
        },
      },
      // These files share a process: most of them take less time than to load what they test.
      {
        extends: true,
        plugins: [compiled()],
        test: { name: 'unit', include: [unit], exclude: mocks, isolate: false },
      },
      {
        extends: true,
        plugins: [compiled()],
        test: {
          name: 'shared',
          include: shared,
          isolate: false,
          setupFiles: ['test/testkit/nothing-left.ts'],
        },
      },
      // A compiled module imports its neighbours past what a test puts in their place.
      { extends: true, test: { name: 'mocks', include: mocks } },
    ],
  },
})
