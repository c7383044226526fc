// Latencies in an HdrHistogram: percentiles, `.hgrm` text, and the encoding that its tools read.
// Values are milliseconds with a fraction, kept in nanoseconds to 3 digits.
import { encodeIntoCompressedBase64, Float64Histogram } from 'hdr-histogram-js'

const nsPerMs = 1e6
/** An hour; a longer latency counts as an hour. */
const highestNs = 3.6e12
const digits = 3
/** Lines of an .hgrm for each halving of the distance to 100 %. */
const ticksPerHalf = 5

export class Latencies {
  readonly #histogram = new Float64Histogram(1, highestNs, digits)

  get count(): number {
    return this.#histogram.totalCount
  }

  record(ms: number): void {
    this.#histogram.recordValue(Math.min(highestNs, Math.max(0, Math.round(ms * nsPerMs))))
  }

  /** Milliseconds; null without samples. */
  percentile(percent: number): number | null {
    if (this.count === 0) return null
    return this.#histogram.getValueAtPercentile(percent) / nsPerMs
  }

  maxMs(): number | null {
    return this.count === 0 ? null : this.#histogram.maxValue / nsPerMs
  }

  meanMs(): number | null {
    return this.count === 0 ? null : this.#histogram.mean / nsPerMs
  }

  /** The bucket that a value falls into, for `bucketMs`. */
  bucketOf(ms: number): number {
    const ns = Math.min(highestNs, Math.max(0, Math.round(ms * nsPerMs)))
    return this.#histogram.countsArrayIndex(ns)
  }

  bucketMs(bucket: number): number {
    const lowest = this.#histogram.valueFromIndex(bucket)
    return this.#histogram.medianEquivalentValue(lowest) / nsPerMs
  }

  /** HdrHistogram's text of percentiles, in milliseconds. */
  hgrm(): string {
    return this.#histogram.outputPercentileDistribution(ticksPerHalf, nsPerMs)
  }

  /** HdrHistogram V2, compressed, in base64; values are nanoseconds. */
  encoded(): string {
    return encodeIntoCompressedBase64(this.#histogram)
  }
}
