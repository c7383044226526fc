import { defineConfig } from 'vitest/config'

// Storms, soaks, kills and everything slow: one file at a time, since some load the whole machine.
export default defineConfig({
  test: {
    include: ['test/long/**/*.test.ts'],
    globalSetup: ['test/support/compile.ts'],
    pool: 'forks',
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 120_000,
    reporters: ['default'],
  },
})
