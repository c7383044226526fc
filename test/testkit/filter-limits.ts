// Limits of filters, small enough for a test to reach them.
import type { FilterLimits } from '../../src/streams/geyser/filter-compile.ts'

export const limits: FilterLimits = {
  filtersMax: 10,
  accountsMax: 100,
  ownersMax: 100,
  dataSlicesMax: 10,
  cuckooBytesMax: 10_000,
  any: true,
  accountReject: new Set<string>(),
  ownerReject: new Set<string>(),
}
