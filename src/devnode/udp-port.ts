// The UDP port that getClusterNodes names for gossip, TPU, TVU and repair. Thread: main of the
// devnode. Nothing is served there: a QUIC client is refused at once (no version fits), so that
// it sends over JSON-RPC instead of waiting for a timeout; all other datagrams are dropped.
import { UdpSocket } from '../base/transport/udp.ts'

export interface UdpPort {
  readonly port: number
  stop(): void
}

export async function openUdpPort(host: string): Promise<UdpPort> {
  const socket = await UdpSocket.open({ host, port: 0 })
  socket.onError(() => {})
  socket.onMessage((packet, from, port) => {
    const refusal = versionNegotiation(packet)
    if (refusal !== null) socket.sendTo(refusal, from, port)
  })
  return { port: socket.port, stop: () => socket.close() }
}

/** The first packet of a client is padded to this, and our answer is shorter. */
const INITIAL_BYTES_MIN = 1200
const LONG_HEADER = 0x80
/** Reserved for this purpose: no client speaks it. */
const NO_VERSION = Uint8Array.of(0x1a, 0x2a, 0x3a, 0x4a)
const LENGTH_AT = 5

/**
 * The answer to the first packet of a QUIC connection; null for any other datagram.
 *
 *   long header u8 | version u32, 0 in the answer | length u8, destination | length u8, source
 */
export function versionNegotiation(packet: Uint8Array): Buffer | null {
  if (packet.length < INITIAL_BYTES_MIN || (packet[0]! & LONG_HEADER) === 0) return null
  const version = packet.subarray(1, LENGTH_AT)
  if (version.every((byte) => byte === 0)) return null
  const sourceAt = LENGTH_AT + 1 + packet[LENGTH_AT]!
  const end = sourceAt + 1 + packet[sourceAt]!
  return Buffer.concat([
    Uint8Array.of(LONG_HEADER, 0, 0, 0, 0),
    packet.subarray(sourceAt, end),
    packet.subarray(LENGTH_AT, sourceAt),
    NO_VERSION,
  ])
}
