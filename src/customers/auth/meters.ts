// Declares the meters of authentication. Counts are plain numbers, read at scrape
// time: a refused token must not cost more than an accepted one.
import type { Meters } from '../../base/telemetry/meters.ts'
import type { Directory } from './directory.ts'
import type { Gate } from './gate.ts'
import { endpoints } from './token.ts'

export function declareAuthMeters(meters: Meters, gate: Gate, directory: Directory): void {
  meters.counterRead(
    'sluice_auth_refused_total',
    'Requests refused because they had no valid credential',
    { door: endpoints },
    () => endpoints.map((door) => [{ door }, gate.refused()[door]] as const),
  )
  meters.gaugeRead('sluice_auth_held', 'Connections, streams and queries open with a token', () =>
    gate.leaseCount(),
  )
  meters.gaugeRead(
    'sluice_auth_registry_version',
    'Registry version in effect on this server',
    () => directory.version(),
  )
  meters.gaugeRead(
    'sluice_auth_registry_rolled_back',
    '1 while the registry on disk is older than the version in effect, and is not read',
    () => Number(directory.isRolledBack()),
  )
}
