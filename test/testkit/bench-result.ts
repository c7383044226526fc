// A result of `sluice bench load` for tests.
import type { Result } from '../../src/loadtest/result.ts'

export function sampleResult(changed: Partial<Result>): Result {
  return {
    format: 'sluice-bench',
    version: 1,
    verb: 'load',
    startedAt: '2026-01-01T00:00:00.000Z',
    seconds: 10,
    fit: true,
    unfit: [],
    partial: null,
    machine: { node: 'v20', platform: 'linux x64', processor: 'p', cores: 2 },
    settings: { rate: 1000 },
    figures: [
      { name: 'p99', of: '', value: 2, unit: 'ms', better: 'lower' },
      { name: 'achieved', of: '', value: 1000, unit: 'per second', better: 'higher' },
    ],
    histograms: {},
    detail: {},
    ...changed,
  }
}
