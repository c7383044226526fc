// Decides on the packets of a recording as the shred worker does, without a socket.
import { decodeBase58 } from '../../chain/solana/base58.ts'
import { LeaderSignatures } from '../../chain/solana/shred-signature.ts'
import { Recovery, ShredAdmission, verdicts } from './admit.ts'
import { dropReasons, SharedStats } from './shared-stats.ts'
import { SlotWindow, windowBytes } from './window.ts'

export interface ShredRules {
  readonly version: number
  /** Base58 keys of possible leaders; null when signatures are not verified. */
  readonly leaders: readonly string[] | null
  readonly recover: boolean
  readonly sources: number
}

const nowBytes = 8

export class ShredReplay {
  readonly #stats = new SharedStats()
  readonly #admission: ShredAdmission
  readonly #forwarded: (shred: Uint8Array) => void

  /** `forwarded` gets what would go to every destination. */
  constructor({ version, leaders, recover }: ShredRules, forwarded: (shred: Uint8Array) => void) {
    const window = new SlotWindow(new SharedArrayBuffer(windowBytes), this.#stats)
    const keys = leaders?.map((key) => decodeBase58(key)!) ?? null
    this.#admission = new ShredAdmission(this.#stats, window, {
      version,
      signatures: keys && new LeaderSignatures(keys),
      recovery: recover ? new Recovery(this.#stats) : null,
    })
    this.#forwarded = forwarded
  }

  /** An entry of the recording: the time, then the packet; its source is the tag. */
  take(source: number, entry: Buffer): void {
    const nowMs = entry.readDoubleLE(0)
    const packet = entry.subarray(nowBytes)
    const verdict = this.#admission.admit(packet, 0, packet.length, source, nowMs)
    if (verdict !== verdicts.drop) this.#forwarded(packet)
    // The worker does it between batches: when it is done changes no shred, only its order.
    while (this.#admission.isBusy) this.#admission.step(nowMs).forEach(this.#forwarded)
  }

  /** How many packets got each verdict. */
  counts(): Readonly<Record<string, number>> {
    const { received, accepted, ...totals } = this.#stats.totals.row(0)
    const dropped = dropReasons.flatMap((reason) =>
      totals[reason]! > 0 ? [[reason, totals[reason]!] as const] : [],
    )
    return { received: received!, accepted: accepted!, ...Object.fromEntries(dropped) }
  }
}
