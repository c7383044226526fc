// How many cases a test makes up: few in the short suite, all of them in the long one, which runs
// every file that asks this (vitest.long.config.ts).

const isEveryCase = process.env.SLUICE_CASES === 'all'

export function caseCount(few: number, all: number): number {
  return isEveryCase ? all : few
}
