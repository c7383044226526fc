// What shredstream needs of the leases of destinations among several gateways.
import type { Subscription } from '../../customers/subscriptions/subscription.ts'

export interface DestinationLeases {
  /** Whether this gateway serves the destination of that subscription. */
  isHeld(subscription: string): boolean
  start(user: {
    wanted(): readonly string[]
    onChanged(subscription: string): void
    onDeadline(leftMs: number): void
  }): void
  /** Gives all leases back, after nothing is sent any more. */
  stop(): Promise<void>
}

/** True when shreds, or challenges, are to be sent to an address of that subscription. */
export function hasDestination({ state, products, destination }: Subscription): boolean {
  return state === 'active' && products.includes('shredstream') && destination !== null
}
