// Streams large answers in slices that are built while they are sent.
// One slice per millisecond over all answers together: any other request waits for one slice at
// most, however many large answers are in flight.

/** Bytes of one slice, 0.2 ms of work. A shorter answer goes out whole and with its length. */
const sliceBytes = 64 * 1024
const sliceEveryMs = 1

export class AnswerStreams {
  readonly #waiting: (() => void)[] = []
  #isScheduled = false

  /** The answer that `pieces` make, whole when it is short. `sent` is called once with its length,
   *  when it is sent or the client disconnected. */
  answer(
    pieces: Iterator<Uint8Array>,
    sent: (bytes: number) => void,
  ): Uint8Array | AsyncIterable<Uint8Array> {
    const first = sliceOf(pieces)
    if (!first.isLast) return this.#rest(first.bytes, pieces, sent)
    sent(first.bytes.length)
    return first.bytes
  }

  async *#rest(
    first: Uint8Array,
    pieces: Iterator<Uint8Array>,
    sent: (bytes: number) => void,
  ): AsyncGenerator<Uint8Array> {
    let bytes = first.length
    try {
      yield first
      for (let isLast = false; !isLast; ) {
        await this.#turn()
        const slice = sliceOf(pieces)
        isLast = slice.isLast
        bytes += slice.bytes.length
        yield slice.bytes
      }
    } finally {
      sent(bytes)
    }
  }

  /** Resolves when it is this answer's turn. */
  #turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0) return
    this.#isScheduled = true
    setTimeout(() => {
      this.#isScheduled = false
      this.#waiting.shift()?.()
      this.#schedule()
    }, sliceEveryMs)
  }
}

function sliceOf(pieces: Iterator<Uint8Array>): { bytes: Uint8Array; isLast: boolean } {
  const slice: Uint8Array[] = []
  let length = 0
  while (length < sliceBytes) {
    const next = pieces.next()
    if (next.done === true) return { bytes: Buffer.concat(slice, length), isLast: true }
    slice.push(next.value)
    length += next.value.length
  }
  return { bytes: Buffer.concat(slice, length), isLast: false }
}
