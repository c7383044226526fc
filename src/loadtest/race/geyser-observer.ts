// Observes a yellowstone geyser stream. Thread: observer.
import { systemClock } from '../../base/clock.ts'
import { commitmentNamed } from '../../base/commitment.ts'
import { BackWriter, ProtoReader } from '../../base/protobuf.ts'
import { keyText } from '../../chain/solana/base58.ts'
import { readEnvelope, updateField } from '../../chain/solana/geyser-parts.ts'
import { GeyserClient, type GeyserEnd } from '../../upstream/geyser/geyser-client.ts'
import { framePrefixBytes } from '../../upstream/geyser/http2-reader.ts'
import { sharedNowMs } from '../thread-clock.ts'
import {
  type Endpoint,
  type Observer,
  type ObserverEvents,
  pingEveryMs,
  type Subject,
  signatureKey,
  writeKey,
} from './observer.ts'

/** SlotStatus that show a slot: a later one would show slots that began before the connection. */
const slotStatuses = {
  // PROCESSED, FIRST_SHRED_RECEIVED, COMPLETED, CREATED_BANK.
  processed: [0, 3, 4, 5],
  confirmed: [1],
  finalized: [2],
} as const

const grpcPermissionDenied = 7
const grpcUnauthenticated = 16

export function observeGeyser(
  { url, token }: Endpoint,
  subject: Subject,
  events: ObserverEvents,
): Observer {
  const address = url.replace(/^grpc/, 'http')
  const client = new GeyserClient({ address, xToken: token ?? '' }, systemClock)
  const arrivals = new ByteArrivals()
  const statuses = slotStatuses[subject.commitment]
  let isLive = false
  const live = () => {
    if (!isLive) events.live()
    isLive = true
  }
  const pinging = setInterval(() => client.ping((ms) => events.roundTrip(ms)), pingEveryMs)
  client.subscribe(geyserRequest(subject), {
    opened: live,
    arrived: (bytes) => arrivals.add(bytes, sharedNowMs()),
    messages: (bytes, offsets) => {
      live()
      for (let index = 0; index < offsets.length; index += 2) {
        const [start, end] = [offsets[index]!, offsets[index + 1]!]
        const atMs = arrivals.take(framePrefixBytes + end - start)
        readSight(bytes.subarray(start, end), atMs, statuses, events)
      }
    },
    ended: (end) => {
      clearInterval(pinging)
      client.close()
      events.down(problemOf(end), end.kind === 'silent')
    },
  })
  return {
    close() {
      clearInterval(pinging)
      events.down = () => {}
      client.close()
    },
  }
}

function readSight(
  message: Uint8Array,
  atMs: number,
  statuses: readonly number[],
  events: ObserverEvents,
): void {
  const envelope = readEnvelope(message, 0, message.length)
  if (envelope === null) return
  const reader = new ProtoReader(message, envelope.start, envelope.end)
  if (envelope.field === updateField.slot) {
    readSlot(reader, atMs, statuses, events)
    return
  }
  const isTransaction = envelope.field === updateField.transaction
  if (!isTransaction && envelope.field !== updateField.account) return
  let name: Uint8Array | null = null
  let slot = 0
  let isStartup = false
  while (reader.next()) {
    if (reader.field === 2) slot = reader.number
    else if (reader.field === 3) isStartup = reader.flag
    else if (reader.field === 1) {
      const info = reader.inside()
      while (name === null && info.next()) if (info.field === 1) name = info.bytes
    }
  }
  if (name === null || isStartup) return
  events.saw(isTransaction ? signatureKey(name) : writeKey(keyText(name), slot), slot, atMs)
}

function readSlot(
  reader: ProtoReader,
  atMs: number,
  statuses: readonly number[],
  events: ObserverEvents,
): void {
  let slot = 0
  let status = 0
  while (reader.next()) {
    if (reader.field === 1) slot = reader.number
    else if (reader.field === 3) status = reader.number
  }
  if (statuses.includes(status)) events.saw(String(slot), slot, atMs)
}

/** SubscribeRequest; field numbers are those of proto/geyser.proto. */
function geyserRequest({ unit, accounts, commitment }: Subject): Uint8Array {
  const writer = new BackWriter()
  writer.numberAlways(6, commitmentNamed(commitment) ?? 0)
  if (unit === 'transaction')
    writeFilter(writer, 3, () => {
      for (const account of [...accounts].reverse()) writer.stringAlways(3, account)
      // No votes: PubSub does not show them.
      writer.numberAlways(1, 0)
    })
  if (unit === 'slot')
    writeFilter(writer, 2, () => {
      // interslot_updates: the first sight of a slot is its first shred or its bank.
      writer.flag(2, true)
    })
  if (unit === 'account')
    writeFilter(writer, 1, () => {
      for (const account of [...accounts].reverse()) writer.stringAlways(2, account)
    })
  return writer.take()
}

function writeFilter(writer: BackWriter, map: number, write: () => void): void {
  const entry = writer.mark
  const value = writer.mark
  write()
  writer.wrap(2, value)
  writer.string(1, 'race')
  writer.wrap(map, entry)
}

function problemOf({ kind, code, details }: GeyserEnd): string {
  if (code === grpcUnauthenticated || code === grpcPermissionDenied)
    return `refused the token (gRPC status ${code}: ${details})`
  if (kind === 'status') return `ended the stream (gRPC status ${code}: ${details})`
  if (kind === 'silent') return 'is silent: no byte for 3 s'
  if (kind === 'broken') return 'does not speak gRPC'
  return details === '' ? 'closed the connection' : `cannot be reached (${details})`
}

/**
 * When the bytes of a stream arrived, until its messages are read: a message has the time of the
 * chunk with its last byte. Bounded by what one turn of the event loop receives.
 */
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
