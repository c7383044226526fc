// Reads and writes the UDP payloads of packet capture files (classic pcap).
// Reads both byte orders, micro- and nanosecond times, Ethernet and raw IP, IPv4 and IPv6; skips
// everything that is not a complete UDP datagram. Writes Ethernet frames with loopback addresses.

export interface CapturedPacket {
  /** Milliseconds since 1970, with a fraction. */
  readonly timeMs: number
  readonly payload: Uint8Array
}

const fileHeaderBytes = 24
const recordHeaderBytes = 16
const linkEthernet = 1
const linkRaw = 101
const magicMicro = 0xa1b2c3d4
const magicNano = 0xa1b23c4d
const etherIpv4 = 0x0800
const etherIpv6 = 0x86dd
const protocolUdp = 17
const udpHeaderBytes = 8
/** Ethernet, IPv4 without options, UDP. */
const frameHeaderBytes = 14 + 20 + udpHeaderBytes

/** The UDP payloads of a capture, in file order; null when it is not a pcap file. */
export function readPcap(file: Uint8Array): CapturedPacket[] | null {
  if (file.length < fileHeaderBytes) return null
  const view = new DataView(file.buffer, file.byteOffset, file.length)
  const little = [magicMicro, magicNano].includes(view.getUint32(0, true))
  const magic = view.getUint32(0, little)
  if (magic !== magicMicro && magic !== magicNano) return null
  const perMs = magic === magicNano ? 1e6 : 1e3
  const link = view.getUint32(20, little) & 0xffff
  const packets: CapturedPacket[] = []
  let at = fileHeaderBytes
  while (at + recordHeaderBytes <= file.length) {
    const seconds = view.getUint32(at, little)
    const fraction = view.getUint32(at + 4, little)
    const length = view.getUint32(at + 8, little)
    at += recordHeaderBytes
    if (at + length > file.length) break
    const payload = udpPayload(file.subarray(at, at + length), link)
    at += length
    if (payload !== null) packets.push({ timeMs: seconds * 1000 + fraction / perMs, payload })
  }
  return packets
}

/** The header of a capture file. */
export function pcapHeader(): Uint8Array {
  const header = new Uint8Array(fileHeaderBytes)
  const view = new DataView(header.buffer)
  view.setUint32(0, magicMicro, true)
  view.setUint16(4, 2, true)
  view.setUint16(6, 4, true)
  view.setUint32(16, 0xffff, true)
  view.setUint32(20, linkEthernet, true)
  return header
}

/** Encodes one datagram as a record, to be appended to the file. */
export function pcapRecord(packet: CapturedPacket, port: number): Uint8Array {
  const { timeMs, payload } = packet
  const record = new Uint8Array(recordHeaderBytes + frameHeaderBytes + payload.length)
  const view = new DataView(record.buffer)
  const frame = frameHeaderBytes + payload.length
  view.setUint32(0, Math.floor(timeMs / 1000), true)
  view.setUint32(4, Math.floor((timeMs % 1000) * 1000), true)
  view.setUint32(8, frame, true)
  view.setUint32(12, frame, true)
  const ethernet = recordHeaderBytes
  view.setUint16(ethernet + 12, etherIpv4)
  const ip = ethernet + 14
  view.setUint8(ip, 0x45)
  view.setUint16(ip + 2, frame - 14)
  view.setUint8(ip + 8, 64)
  view.setUint8(ip + 9, protocolUdp)
  view.setUint32(ip + 12, 0x7f000001)
  view.setUint32(ip + 16, 0x7f000001)
  view.setUint16(ip + 10, checksum(view, ip))
  view.setUint16(ip + 22, port)
  view.setUint16(ip + 24, udpHeaderBytes + payload.length)
  record.set(payload, ip + 28)
  return record
}

function udpPayload(frame: Uint8Array, link: number): Uint8Array | null {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.length)
  let at = 0
  if (link === linkEthernet) {
    if (frame.length < 14) return null
    const type = view.getUint16(12)
    if (type !== etherIpv4 && type !== etherIpv6) return null
    at = 14
  } else if (link !== linkRaw) return null
  if (frame.length < at + 20) return null
  const family = frame[at]! >> 4
  const isV4 = family === 4
  if (!isV4 && (family !== 6 || frame.length < at + 40)) return null
  if (frame[at + (isV4 ? 9 : 6)] !== protocolUdp) return null
  // Skip fragments: only the first has a UDP header, and its datagram is incomplete.
  if (isV4 && (view.getUint16(at + 6) & 0x3fff) !== 0) return null
  at += isV4 ? (frame[at]! & 15) * 4 : 40
  if (frame.length < at + udpHeaderBytes) return null
  const end = at + view.getUint16(at + 4)
  if (end < at + udpHeaderBytes || end > frame.length) return null
  return frame.subarray(at + udpHeaderBytes, end)
}

/** Checksum of an IPv4 header without options, whose checksum field is still zero. */
function checksum(view: DataView, at: number): number {
  let sum = 0
  for (let word = 0; word < 20; word += 2) sum += view.getUint16(at + word)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return ~sum & 0xffff
}
