// The interfaces of what several gateways share: embedded for one gateway, PostgreSQL for several.
import type { Outcome } from '../../base/errors.ts'
import type { AuditEntry, AuditHead } from '../subscriptions/audit.ts'
import type { Registered } from '../subscriptions/subscription.ts'
import type { Change } from '../subscriptions/verbs.ts'

/** Applies changes to the registry: one audit entry each, in one transaction. */
export interface RegistryWriter {
  run<T>(change: Change<T>): Promise<Outcome<T>>
}

/** An audit entry; with its record where it is the subject's newest. */
export interface RegistryEntry {
  readonly entry: AuditEntry
  readonly record: Registered | null
}

/** The shared registry as a gateway follows it. */
export interface RegistryNews {
  head(): Promise<AuditHead>
  /** A page of the entries after that number, in order; `count` are known to be there. */
  after(seq: number, count: number): Promise<readonly RegistryEntry[]>
  /** Calls `notify` when entries may have been added; returns the function that ends it. */
  onNews(notify: () => void): () => void
}

/** What a gateway used of one subscription, and what its callers asked for beyond its share. */
export interface SpentRow {
  readonly id: string
  readonly perSecond: number
  readonly burst: number
  readonly spent: number
  /** Credits that it may still spend until it has the answer. */
  readonly left: number
  readonly wanted: number
}

/** `live`: sharers is the number of gateways. `mine`: a new share. `other`: in use elsewhere. */
export interface SettledRow {
  readonly id: string
  readonly kind: 'live' | 'mine' | 'other'
  readonly granted: number
  /** Gateways that share the rate; 0 for a newcomer, who refills from its next exchange on. */
  readonly sharers: number
  readonly debt: number
}

/** The budgets of all gateways. A repeated exchange number counts once. */
export interface BudgetLedger {
  settle(number: number, rows: readonly SpentRow[]): Promise<readonly SettledRow[]>
}
