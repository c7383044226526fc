// Remembers when the bytes of a stream arrived, until its messages are read. Thread: observer.
// A chunk has one arrival time; a message has that of the chunk with its last byte.
// Bounded by what the connection has not handed over yet, which is one turn of the event loop.

export class ByteArrivals {
  readonly #chunks: { readonly end: number; readonly atMs: number }[] = []
  #received = 0
  #taken = 0

  add(bytes: number, atMs: number): void {
    this.#received += bytes
    this.#chunks.push({ end: this.#received, atMs })
  }

  /** Arrival of the last of the next `bytes` bytes. */
  take(bytes: number): number {
    this.#taken += bytes
    while (this.#chunks.length > 1 && this.#chunks[0]!.end < this.#taken) this.#chunks.shift()
    return this.#chunks[0]!.atMs
  }
}
