// Limits the TCP connections that one client address has open to an HTTP endpoint.
// The native server names the address of a connection that opens, but not of one that closes, so
// the connections of each address are read from the kernel's table:
//
//   up to half the limit in all    nobody can be near it: no address is read, nothing is counted
//   above                          counted in the table + opened since, an upper bound
//   an address above half of it    the table is read anew, in slices
//   an address above the limit     its new connections are closed
//
// A client that opens connections faster than the table is read may be refused below its limit
// until the next reading.
import { createReadStream } from 'node:fs'
import { addressKey, formatAddress, type IpAddress } from '../cidr.ts'
import type { Clock } from '../clock.ts'
import { assert } from '../errors.ts'
import { type Log, LogThrottle } from '../telemetry/log.ts'
import type { Addresses } from './address.ts'

export interface ConnectionOptions {
  /** Of one address, IPv4 /32 or IPv6 /64; 0 is no limit. */
  readonly perAddressMax: number
  /** Trusted proxies carry many clients: they are not counted. */
  readonly addresses: Addresses
  readonly clock: Clock
  readonly log: Log
  /** Open connections by address key; rejects where they cannot be counted. */
  count(): Promise<ReadonlyMap<string, number>>
}

export const tooManyOpen = 'a connection was closed: its address has too many'
const READ_MS_MIN = 250
/** The pause between two readings, as a multiple of what the last one took. */
const READ_PAUSE_FACTOR = 20

export class Connections {
  readonly #options: ConnectionOptions
  readonly #half: number
  readonly #throttle = new LogThrottle()
  #open = 0
  /** Null before the first reading since few were open: any address may have half the limit. */
  #counted: ReadonlyMap<string, number> | null = null
  /** Opened since the last reading began. */
  #since = new Map<string, number>()
  /** Opened since the present one began; null between readings. */
  #meanwhile: Map<string, number> | null = null
  #nextReadingMs = 0
  #isUnlimited: boolean

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#half = Math.floor(options.perAddressMax / 2)
    this.#isUnlimited = options.perAddressMax === 0
  }

  /** A connection opened; false when its address has too many and it is to be closed. */
  opened(connection: { getRemoteAddress(): ArrayBuffer }): boolean {
    this.#open++
    if (this.#isUnlimited) return true
    if (this.#open <= this.#half) {
      this.#counted = null
      this.#since.clear()
      return true
    }
    const { addresses, clock, log, perAddressMax } = this.#options
    const address = addresses.clientOf(connection.getRemoteAddress(), '')
    if (address === '' || addresses.isProxy(address)) return true
    const key = addressKey(address)
    const before = this.#counted === null ? this.#half : (this.#counted.get(key) ?? 0)
    const own = before + (this.#since.get(key) ?? 0) + 1
    if (this.#counted === null || own > this.#half) void this.#read()
    if (own > perAddressMax && this.#open > perAddressMax) {
      if (this.#throttle.allows('refused', clock.monotonicMs())) log.warn(tooManyOpen, { address })
      return false
    }
    add(this.#since, key, 1)
    if (this.#meanwhile !== null) add(this.#meanwhile, key, 1)
    return true
  }

  /** A connection closed, one that was refused included. */
  closed(): void {
    this.#open--
  }

  async #read(): Promise<void> {
    const { clock, count } = this.#options
    const beganMs = clock.monotonicMs()
    if (this.#meanwhile !== null || beganMs < this.#nextReadingMs) return
    // What opens meanwhile may be in the table or not: it is counted twice rather than missed.
    this.#meanwhile = new Map()
    try {
      this.#counted = await count()
      this.#since = this.#meanwhile
    } catch (error) {
      // Where there is no table connections are not limited; without descriptors it is read later.
      const { code = '' } = error as NodeJS.ErrnoException
      this.#isUnlimited = ['ENOENT', 'EACCES', 'EPERM'].includes(code)
    }
    this.#meanwhile = null
    const endedMs = clock.monotonicMs()
    this.#nextReadingMs = endedMs + Math.max(READ_MS_MIN, READ_PAUSE_FACTOR * (endedMs - beganMs))
  }
}

/** Reads the kernel's table of TCP connections; all to this port on this machine count. */
export async function countConnections(port: number): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>()
  for (const path of ['/proc/net/tcp', '/proc/net/tcp6'])
    await countRows(createReadStream(path, 'latin1'), port, counts)
  return counts
}

/**
 * Established connections, and those that only the peer has closed. A table may have tens of
 * megabytes: others are served between its slices. Exported for its test.
 */
export async function countRows(
  slices: AsyncIterable<string>,
  port: number,
  counts: Map<string, number>,
): Promise<void> {
  const local = port.toString(16).toUpperCase().padStart(4, '0')
  const row = new RegExp(`^ *\\d+: [0-9A-F]+:${local} ([0-9A-F]+):[0-9A-F]{4} 0[18] `, 'gm')
  let rest = ''
  for await (const slice of slices) {
    const rows = rest + slice
    const end = rows.lastIndexOf('\n') + 1
    for (const [, remote] of rows.slice(0, end).matchAll(row))
      add(counts, addressKey(addressIn(remote!)), 1)
    rest = rows.slice(end)
  }
}

/** Words of 32 bits in the machine's byte order, which is little-endian wherever this runs. */
function addressIn(hex: string): string {
  const bytes = Buffer.from(hex, 'hex').swap32()
  const word = (at: number) => bytes.readUInt32BE(at)
  const words: IpAddress['words'] =
    bytes.length === 4 ? [0, 0, 0, word(0)] : [word(0), word(4), word(8), word(12)]
  return formatAddress({ family: bytes.length === 4 ? 4 : 6, words })
}

/** A key that none are left of is removed. */
export function add(counts: Map<string, number>, key: string, change: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + change
  if (count === 0) counts.delete(key)
  else counts.set(key, count)
}

// Counts the requests in flight of each client address, IPv4 /32 or IPv6 /64: waiting for body,
// answer or reader. One that is answered at once is never counted and needs no address: reading it
// from the native server costs as much as a token check.

export class InFlight {
  /** How many one address may have. */
  readonly max: number
  readonly #counts = new Map<string, number>()
  #full = 0

  constructor(perAddressMax: number) {
    this.max = perAddressMax
  }

  get isEmpty(): boolean {
    return this.#counts.size === 0
  }

  /** True when some address has all its permits taken, and callers must be checked. */
  get isAnyFull(): boolean {
    return this.#full > 0
  }

  isFull(address: string): boolean {
    return (this.#counts.get(addressKey(address)) ?? 0) >= this.max
  }

  /** Takes a permit; false when all permits of the address are taken. */
  enter(address: string): boolean {
    const key = addressKey(address)
    const count = this.#counts.get(key) ?? 0
    if (count >= this.max) return false
    add(this.#counts, key, 1)
    if (count + 1 === this.max) this.#full++
    return true
  }

  leave(address: string): void {
    const key = addressKey(address)
    const count = this.#counts.get(key) ?? 0
    assert(count > 0 && count <= this.max, 'a permit of an address is returned once')
    if (count === this.max) this.#full--
    assert(this.#full >= 0, 'addresses without a permit left are counted')
    add(this.#counts, key, -1)
  }
}
