// What a race asks of one connection to an endpoint. Thread: observer.
import type { RaceKind, Unit } from './units.ts'

export interface Subject {
  readonly unit: Unit
  /** Base58; the accounts whose writes or transactions count. Empty: all transactions. */
  readonly accounts: readonly string[]
  readonly commitment: 'processed' | 'confirmed' | 'finalized'
  /** How often a slot is polled. */
  readonly pollMs: number
}

export interface Endpoint {
  readonly kind: RaceKind
  readonly url: string
  readonly token: string | null
}

/** What an observer reports; nothing after `down`. */
export interface ObserverEvents {
  /** The subscription is in force. */
  live(): void
  /** `atMs` is when the bytes left the socket; `key` names the item on every kind of endpoint. */
  saw(key: string, slot: number, atMs: number): void
  roundTrip(ms: number): void
  /**
   * Called once, when the connection ended or was refused; what happened, in a few words.
   * `isTransient`: worth another try even when it was never live.
   */
  down(problem: string, isTransient?: boolean): void
}

export interface Observer {
  /** Ends the connection; `down` is not called then. */
  close(): void
}

/** How often the round trip is measured. */
export const pingEveryMs = 500

/** Enough of a signature to be unique: 2^128 values. */
const signatureKeyBytes = 16

export function signatureKey(signature: Uint8Array): string {
  return Buffer.from(signature.buffer, signature.byteOffset, signatureKeyBytes).toString('latin1')
}

/** The first write of an account in a slot; PubSub does not number the writes inside one. */
export function writeKey(account: string, slot: number): string {
  return `${account} ${slot}`
}
