// Publishes Solana updates to a hub.
import { isCommitment } from '../../base/commitment.ts'
import { SlotTime } from '../../base/slot-time.ts'
import { type SolanaUpdate, slotStatus } from '../../chain/solana/updates.ts'
import { Hub, type HubBounds } from '../hub/hub.ts'
import type { ReplayTurns } from '../hub/replay-turns.ts'

export type SolanaHub = Hub<SolanaUpdate>

/** As yellowstone keeps by default. */
export const yellowstoneBounds: HubBounds = {
  replaySlots: 150,
  replayBytesMax: 256 * 1024 * 1024,
}

/** The same time where slots are shorter than 400 ms. */
export const gatewayBounds = { ...yellowstoneBounds, replayMs: 60_000 } satisfies HubBounds

export function openSolanaHub(
  bounds = yellowstoneBounds,
  slotTime = new SlotTime(),
  turns?: ReplayTurns,
): SolanaHub {
  return new Hub<SolanaUpdate>(bounds, bytesOf, slotTime, turns)
}

export function publishUpdate(hub: SolanaHub, update: SolanaUpdate): void {
  if (update.kind === 'retraction') {
    hub.retract(update)
    return
  }
  if (update.kind !== 'slot') {
    hub.content(update)
    return
  }
  hub.status(update, isCommitment(update.status) ? update.status : null)
  if (update.status === slotStatus.dead) hub.abandon(update.slot)
}

/** Estimate for a transaction's status and an update's plain fields. */
const besideBodyBytes = 128

/** Memory of a kept update; a block only refers to updates that are counted already. */
function bytesOf(update: SolanaUpdate): number {
  switch (update.kind) {
    case 'account':
    case 'transaction':
      // Nothing else is read: an update from a node makes views and decodes fields on access.
      return (update.bodyBytes ?? update.body.length) + besideBodyBytes
    case 'block':
    case 'retraction':
      return 0
    default:
      return update.body.length
  }
}
