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
export default defineConfig({
  test: {
    globalSetup: ['test/testkit/compile.ts'],
    reporters: ['default'],
    pool: 'forks',
    projects: [
      {
        extends: true,
        test: {
          name: 'slow',
          include: ['test/long/**/*.test.ts', 'test/cluster/**/*.test.ts'],
          exclude: soaks,
          maxWorkers: 3,
          testTimeout: 300_000,
          hookTimeout: 120_000,
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
          testTimeout: 300_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
