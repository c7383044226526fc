// Finds the ping in a SubscribeRequest without decoding the rest of it.
// Decoding 4 MB of filters that a ping carries, and that are ignored, would block the main thread.
import { ProtoReader, WIRE_BYTES } from '../../base/proto-reader.ts'

const pingField = 9

/** The bytes of the last `ping` field; null when it is absent or the fields are malformed. */
export function pingIn(request: Uint8Array): Uint8Array | null {
  const reader = new ProtoReader(request)
  let ping: Uint8Array | null = null
  while (reader.next())
    if (reader.field === pingField && reader.wire === WIRE_BYTES) ping = reader.bytes
  return reader.isBroken ? null : ping
}
