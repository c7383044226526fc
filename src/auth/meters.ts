// The meters of the gate. Thread: main. Counted in plain numbers and read at scrape: a refused
// token must not cost more than an accepted one.
import type { Meters } from '../telemetry/meters.ts'
import type { Directory } from './directory.ts'
import type { Gate } from './gate.ts'
import { doors } from './token.ts'

export function declareAuthMeters(meters: Meters, gate: Gate, directory: Directory): void {
  meters.counterRead(
    'sluice_auth_refused_total',
    'Requests refused for lack of a valid credential',
    { door: doors },
    () => doors.map((door) => [{ door }, gate.refused()[door]] as const),
  )
  meters.gaugeRead('sluice_auth_held', 'Connections and streams open on a token', () => gate.held())
  meters.gaugeRead('sluice_auth_registry_version', 'Changes of the registry in force here', () =>
    directory.version(),
  )
  meters.gaugeRead(
    'sluice_auth_registry_rolled_back',
    '1 while the registry is an older copy than the one in force, and is not read',
    () => Number(directory.isRolledBack()),
  )
}
