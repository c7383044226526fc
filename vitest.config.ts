import { defineConfig } from 'vitest/config'

// The short suite: unit, stress, integration, pages and end-to-end.
// Three workers on two cores: many tests wait for timers and child processes.
// Forks, not threads: a uWebSockets.js app left open in a thread aborts the process.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/long/**', 'test/cluster/**'],
    globalSetup: ['test/testkit/compile.ts'],
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['default'],
  },
})
