// The event stream without a network: peers that read on request, and a clock advanced by hand.
// Used by the unit tests of products/metrics.
import { unpack } from 'msgpackr'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { ActiveBlocks } from '../../src/products/metrics/block-rows.ts'
import type { Connect } from '../../src/products/metrics/handle.ts'
import { declareMetricsMeters } from '../../src/products/metrics/meters.ts'
import {
  StreamClient,
  type StreamParts,
  type StreamSocket,
  StreamSockets,
} from '../../src/products/metrics/stream-sockets.ts'
import { type Encoding, streamKinds } from '../../src/streams/log/encoded.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { FakeExecution, HandClock, handOutSeqs } from './fake-execution.ts'

export type Frame = { seq: number; [kind: string]: unknown }

/** What a peer has not read counts as unsent. */
export class Peer implements StreamSocket {
  readonly topics = new Set<string>()
  readonly frames: Frame[] = []
  readonly isBinary: boolean
  unsentBytes = 0
  closed: number | null = null
  client!: StreamClient
  reads = true
  readonly #queue: Uint8Array[] = []
  readonly #leave: (peer: Peer) => void

  constructor(encoding: Encoding, leave: (peer: Peer) => void) {
    this.isBinary = encoding === 'msgpack'
    this.#leave = leave
  }

  send(bytes: Uint8Array, isBinary: boolean): void {
    if (isBinary !== this.isBinary) throw new Error('a frame of the other encoding')
    this.#queue.push(bytes)
    this.unsentBytes += bytes.length
    if (this.reads) this.read()
  }

  read(count = Number.POSITIVE_INFINITY): void {
    for (let left = count; left > 0 && this.#queue.length > 0; left--) {
      const bytes = this.#queue.shift()!
      this.unsentBytes -= bytes.length
      this.frames.push(this.isBinary ? unpack(bytes) : JSON.parse(Buffer.from(bytes).toString()))
    }
  }

  subscribe(topic: string): void {
    this.topics.add(topic)
  }
  unsubscribe(topic: string): void {
    this.topics.delete(topic)
  }
  batch(work: () => void): void {
    work()
  }
  end(code: number): void {
    this.closed = code
    this.#leave(this)
  }

  /** Of the frames that move a cursor. */
  get seqs(): number[] {
    return this.frames.map((frame) => frame.seq).filter((seq) => seq > 0)
  }
  get kinds(): string[] {
    return this.frames.map((frame) => Object.keys(frame)[1]!)
  }
}

export class StreamStage {
  readonly clock = new HandClock()
  readonly log: EventLog
  readonly execution: FakeExecution
  readonly parts: StreamParts
  readonly sockets: StreamSockets
  readonly #peers = new Set<Peer>()

  /** `isShared`: the frames come by `accept`. */
  constructor({ isShared = false } = {}) {
    const { clock } = this
    this.log = new EventLog({ reserve: handOutSeqs(1000), clock, framesMax: 5000, isShared })
    this.execution = new FakeExecution(this.log, clock)
    this.parts = {
      log: this.log,
      active: new ActiveBlocks({ finalized: () => {} }),
      meters: declareMetricsMeters(new Meters()),
      limits: { unsentBytesMax: 40_000, slowMsMax: 30_000 },
      run: 'run-1',
    }
    this.log.listen((frame) => this.parts.active.update(frame))
    this.sockets = new StreamSockets(this.parts, this.clock)
    this.sockets.publish = (topic, bytes, isBinary) => {
      for (const peer of this.#peers) if (peer.topics.has(topic)) peer.send(bytes, isBinary)
    }
  }

  connect(options: Partial<Connect> & { encoding?: Encoding; reads?: boolean } = {}): Peer {
    const { encoding = 'json', reads = true, ...about } = options
    const peer = new Peer(encoding, (leaving) => {
      this.sockets.remove(leaving.client)
      this.#peers.delete(leaving)
    })
    peer.reads = reads
    this.#peers.add(peer)
    const connect = { kinds: streamKinds, resumeFrom: null, run: null, ...about }
    const nowMs = this.clock.monotonicMs()
    peer.client = new StreamClient(
      peer,
      { encoding, address: '127.0.0.1', connect, nowMs },
      this.parts,
    )
    this.sockets.add(peer.client)
    return peer
  }

  stop(): void {
    this.sockets.stop()
  }
}

export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
