// The road of Solana updates: from a chain into the hub. Thread: main.
// Called by the chain's side for each update, in the order that upstream/ports.ts states.
import { isCommitment } from '../base/commitment.ts'
import { type SolanaUpdate, slotStatus } from '../solana/updates.ts'
import { Hub, type HubBounds } from '../stream/hub.ts'

export type SolanaHub = Hub<SolanaUpdate>

export function openSolanaHub(bounds: HubBounds): SolanaHub {
  return new Hub<SolanaUpdate>(bounds, bytesOf)
}

export function publishUpdate(hub: SolanaHub, update: SolanaUpdate): void {
  if (update.kind !== 'slot') {
    hub.content(update)
    return
  }
  hub.status(update, isCommitment(update.status) ? update.status : null)
  if (update.status === slotStatus.dead) hub.abandon(update.slot)
}

/** A transaction's status and an update's plain fields; near enough for a bound. */
const besideBodyBytes = 128

/** What keeping an update costs; a block only refers to parts that are counted already. */
function bytesOf(update: SolanaUpdate): number {
  switch (update.kind) {
    case 'account':
    case 'transaction':
      // Not asked for more than its body: an update from a node decodes the rest when it is read.
      return update.body.length + besideBodyBytes
    case 'block':
      return 0
    default:
      return update.body.length
  }
}
