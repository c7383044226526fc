// Rate-limits each target in packets and bits per second (token buckets). Thread: shred worker.
// A target over its cap is left out of whole batches until its bucket has refilled a little, so
// that the sender's tables change seldom and a flood costs other targets no time.

export interface CapOptions {
  readonly packetsPerSecond: number
  readonly bytesPerSecond: number
}

/** Share of a second's budget that a muted target must have before it is served again. */
const resumeShare = 0.05

export class Caps {
  readonly #options: CapOptions
  readonly #packets: Float64Array
  readonly #bytes: Float64Array
  readonly #mutes: Uint8Array
  #lastMs = 0
  mutedCount = 0

  constructor(options: CapOptions, rows: number) {
    this.#options = options
    this.#packets = new Float64Array(rows).fill(options.packetsPerSecond)
    this.#bytes = new Float64Array(rows).fill(options.bytesPerSecond)
    this.#mutes = new Uint8Array(rows)
  }

  isMuted(row: number): boolean {
    return this.#mutes[row] === 1
  }

  /** Starts a new use of a row, with a full second's budget. */
  reset(row: number): void {
    this.#packets[row] = this.#options.packetsPerSecond
    this.#bytes[row] = this.#options.bytesPerSecond
    if (this.#mutes[row] === 1) this.mutedCount -= 1
    this.#mutes[row] = 0
  }

  /** Charges a batch to all rows; true when the set of muted rows has changed. */
  charge(rows: readonly number[], packets: number, bytes: number, nowMs: number): boolean {
    const { packetsPerSecond, bytesPerSecond } = this.#options
    const seconds = this.#lastMs === 0 ? 0 : Math.max(0, nowMs - this.#lastMs) / 1000
    this.#lastMs = nowMs
    let hasChanged = false
    for (const row of rows) {
      const p = Math.min(packetsPerSecond, this.#packets[row]! + seconds * packetsPerSecond)
      const b = Math.min(bytesPerSecond, this.#bytes[row]! + seconds * bytesPerSecond)
      const isMuted = this.#mutes[row] === 1
      const share = isMuted ? resumeShare : 0
      const isSent =
        p >= Math.max(packets, share * packetsPerSecond) &&
        b >= Math.max(bytes, share * bytesPerSecond)
      this.#packets[row] = isSent ? p - packets : p
      this.#bytes[row] = isSent ? b - bytes : b
      if (isSent !== isMuted) continue
      this.#mutes[row] = isSent ? 0 : 1
      this.mutedCount += isSent ? -1 : 1
      hasChanged = true
    }
    return hasChanged
  }
}
