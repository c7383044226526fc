// Flags of the commands of test/: what cannot be read is one sentence and exit code 2, before
// anything starts.
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { parseDuration } from '../../src/base/clock.ts'

type Options = NonNullable<ParseArgsConfig['options']>
type Flags<T extends Options> = ReturnType<typeof parseArgs<{ allowPositionals: true; options: T }>>

export function readFlags<T extends Options>(options: T): Flags<T> {
  try {
    return parseArgs({ allowPositionals: true, options })
  } catch (error) {
    exitWith((error as Error).message)
  }
}

/** Milliseconds of a flag such as 90s, 10m or 1h30m. */
export function durationFlag(name: string, text: string): number {
  const ms = parseDuration(text)
  if (ms !== null && ms > 0) return ms
  exitWith(`--${name} is a duration such as 30s, 10m or 6h, not ${text}`)
}

export function countFlag(name: string, text: string, least = 0): number {
  const count = Number(text)
  if (text.trim() !== '' && Number.isSafeInteger(count) && count >= least) return count
  exitWith(`--${name} is a whole number from ${least} on, not ${text}`)
}

/** For commands that take no arguments but flags. */
export function refuseArguments(positionals: readonly string[]): void {
  if (positionals.length > 0) exitWith(`unexpected ${positionals.join(' ')}`)
}

export function exitWith(message: string): never {
  console.error(message)
  process.exit(2)
}
