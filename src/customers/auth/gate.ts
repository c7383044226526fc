// Authenticates a request: returns the principal, or null without revealing why.
// Every endpoint calls `admit` once per request or handshake. A connection, stream or query that
// outlives the request takes a `lease`, which closes it when its token is revoked.
// A known and an unknown token take the same steps: a look-up by text, and the first time one
// SHA-256 and a look-up by digest.
//
//   credentials -> token.ts: which token decides -> directory: entry
//               -> endpoint, address, time -> Principal
import type { Clock } from '../../base/clock.ts'
import { refuse } from '../../base/errors.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import { digestOf, tokenChars } from '../subscriptions/issue.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import type { Directory } from './directory.ts'
import {
  type Credentials,
  type Endpoint,
  endpoints,
  type Origin,
  type Principal,
  tokenIn,
} from './token.ts'

interface Lease {
  readonly digest: string
  readonly endpoint: Endpoint
  readonly address: string
  /** The upstream set that serves it; a change of the set ends the lease. */
  readonly upstream: string | null
  readonly close: () => void
}

/** What callers get instead of 401 while the registry is too old. */
export const registryExpired = refuse(
  'unavailable',
  'registry-expired',
  'this gateway has no current registry; try another gateway, or later',
).refusal

export class Gate {
  /** True while the registry is too old to admit anybody: unavailable, not unauthenticated. */
  readonly isExpired: () => boolean
  readonly #directory: Directory
  readonly #clock: Clock
  readonly #leases = new Map<string, Set<Lease>>()
  /** Refusals since the start, by endpoint. */
  readonly refused: Record<Endpoint, number> = Object.fromEntries(
    endpoints.map((endpoint) => [endpoint, 0]),
  ) as Record<Endpoint, number>

  constructor(
    directory: Directory,
    { clock, isExpired = () => false }: { clock: Clock; isExpired?: () => boolean },
  ) {
    this.#directory = directory
    this.#clock = clock
    this.isExpired = isExpired
    directory.watch((subscription) => this.#review(subscription))
  }

  /** The caller, or null: missing, malformed, unknown, suspended, wrong product or address. */
  admit(endpoint: Endpoint, credentials: Credentials, origin: Origin): Principal | null {
    if (this.isExpired()) return null
    const token = tokenIn(endpoint, credentials)
    // After the length only the digest decides: checking the checksum would help guessers.
    if (token === null || token.length !== tokenChars) return this.#refuse(endpoint)
    const entry = this.#directory.entryOf(token)
    if (endpoint === 'indexer') {
      const { user = '', password = '' } = credentials.basic ?? {}
      const digest = digestOf(password)
      if (entry?.principal.subscription.id !== user || !entry.isPassword(digest))
        return this.#refuse(endpoint)
    }
    if (entry === null || !entry.permits(endpoint, origin, this.#clock))
      return this.#refuse(endpoint)
    return entry.principal
  }

  /** Whether a caller that was admitted before would be admitted now. */
  readmits({ digest }: Principal, endpoint: Endpoint, address: string): boolean {
    if (this.isExpired()) return false
    return this.#directory.entry(digest)?.permits(endpoint, address, this.#clock) === true
  }

  /**
   * Calls `close` once, within a second, when the token is revoked, loses this endpoint or address,
   * or is bound to another upstream set: a dedicated customer must be on its own nodes only.
   * Returns the function that releases the lease; call it when the connection closes by itself.
   */
  lease(principal: Principal, endpoint: Endpoint, address: string, close: () => void): () => void {
    const { id, upstream } = principal.subscription
    const lease: Lease = { digest: principal.digest, endpoint, address, upstream, close }
    const leases = this.#leases.get(id) ?? new Set()
    leases.add(lease)
    this.#leases.set(id, leases)
    const release = () => {
      leases.delete(lease)
      if (leases.size === 0 && this.#leases.get(id) === leases) this.#leases.delete(id)
    }
    // The token may have been revoked since `admit`. Deferred, so that the caller has its
    // release function before `close` runs.
    if (!this.#isAlive(lease))
      queueMicrotask(() => {
        if (!leases.has(lease)) return
        release()
        close()
      })
    return release
  }

  /** Leases that exist now. */
  leaseCount(): number {
    let count = 0
    for (const leases of this.#leases.values()) count += leases.size
    return count
  }

  #refuse(endpoint: Endpoint): null {
    this.refused[endpoint]++
    return null
  }

  #isAlive(lease: Lease): boolean {
    const entry = this.#directory.entry(lease.digest)
    if (entry?.permits(lease.endpoint, lease.address, this.#clock) !== true) return false
    return entry.principal.subscription.upstream === lease.upstream
  }

  #review({ id }: Subscription): void {
    const leases = this.#leases.get(id)
    if (leases === undefined) return
    const dead = [...leases].filter((lease) => !this.#isAlive(lease))
    for (const lease of dead) leases.delete(lease)
    if (leases.size === 0) this.#leases.delete(id)
    const failures: unknown[] = []
    for (const lease of dead)
      try {
        lease.close()
      } catch (error) {
        failures.push(error)
      }
    // Thrown after the loop: one `close` that throws must not keep the others open.
    if (failures.length > 0) throw failures[0]
  }
}

// Declares the meters of authentication. Counts are plain numbers, read at scrape
// time: a refused token must not cost more than an accepted one.

export function declareAuthMeters(meters: Meters, gate: Gate, directory: Directory): void {
  meters.counterRead(
    'sluice_auth_refused_total',
    'Requests refused because they had no valid credential',
    { door: endpoints },
    () => endpoints.map((door) => [{ door }, gate.refused[door]] as const),
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
    () => Number(directory.isRolledBack),
  )
}
