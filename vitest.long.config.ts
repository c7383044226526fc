import { defineConfig } from 'vitest/config'

/** These load or measure the whole machine: one file at a time. */
const soaks = [
  'bench-load',
  'indexer-sandbox',
  'memory',
  'metrics-attack',
  'metrics-storm',
  'pubsub-crowd',
  'pubsub-memory',
  'shredstream-flood',
  'shredstream-load',
  'solana-rpc-abuse',
].map((name) => `test/long/${name}.test.ts`)

// Everything slow: kills, restarts, other servers, whole recordings; then storms and soaks.
// The timeouts only guard against a hang, on any machine: no test has one of its own below them.
export default defineConfig({
  test: {
    globalSetup: ['test/testkit/compile.ts'],
    reporters: ['default'],
    pool: 'forks',
    testTimeout: 900_000,
    hookTimeout: 900_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'slow',
          include: ['test/long/**/*.test.ts', 'test/cluster/**/*.test.ts'],
          exclude: soaks,
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'soak',
          include: soaks,
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
