// Lists the verbs of `sluice bench`.
import { benchCompareVerb } from './bench-compare.ts'
import { benchLandVerb } from './bench-land.ts'
import { benchLoadVerb } from './bench-load.ts'
import { benchRaceVerb } from './bench-race.ts'
import type { Verb } from './verb.ts'

export const benchVerbs: readonly Verb[] = [
  benchRaceVerb,
  benchLandVerb,
  benchLoadVerb,
  benchCompareVerb,
]
