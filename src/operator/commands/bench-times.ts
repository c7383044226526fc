// Parses the flags of `sluice bench` that are times.
import { parseDuration } from '../../base/duration.ts'
import { accept, type Outcome } from '../../base/errors.ts'
import { type Call, flagOf, misuse } from './verb.ts'

/** The flags that are times, in milliseconds; `initial` has the default of each. */
export function timesOf<Name extends string>(
  call: Call,
  initial: Readonly<Record<Name, string>>,
): Outcome<Readonly<Record<Name, number>>> {
  const times: Partial<Record<Name, number>> = {}
  // Reason for the casts: the keys of a record of Name are Names, and all of them are set.
  for (const name of Object.keys(initial) as Name[]) {
    const text = flagOf(call, name) ?? initial[name]
    const ms = parseDuration(text)
    if (ms === null) return misuse(`--${name} is a time such as 30s or 500ms, not ${text}`)
    times[name] = ms
  }
  return accept(times as Record<Name, number>)
}
