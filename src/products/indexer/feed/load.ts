// Collects parcels of all feeds into one delivery. Thread: main.
import type {
  Delivery,
  EventParcel,
  SlotParcel,
  SlotRange,
  TipFact,
  UsageFact,
} from '../parcels.ts'
import type { FeedName } from '../tables.ts'
import type { Parcel } from './source.ts'

export class Load {
  bytes = 0
  sinceMs = Number.POSITIVE_INFINITY
  readonly #slots: SlotParcel[] = []
  readonly #events: EventParcel[] = []
  readonly #tips: TipFact[] = []
  readonly #usage: UsageFact[] = []
  readonly #marks: { -readonly [F in FeedName]?: number } = {}
  #cut: SlotRange | null = null

  add(parcel: Parcel): void {
    this.bytes += parcel.bytes
    this.sinceMs = Math.min(this.sinceMs, parcel.sinceMs)
    if (parcel.mark !== null) this.#marks[parcel.feed] = parcel.mark
    switch (parcel.feed) {
      case 'slots':
        this.#slots.push(parcel.content)
        this.#cut ??= parcel.cut
        return
      case 'events':
        this.#events.push(parcel.content)
        return
      case 'tips':
        this.#tips.push(parcel.content)
        return
      case 'usage':
        this.#usage.push(parcel.content)
    }
  }

  take(): Delivery {
    return {
      slots: this.#slots,
      events: this.#events,
      tips: this.#tips,
      usage: this.#usage,
      marks: this.#marks,
      cut: this.#cut,
    }
  }
}
