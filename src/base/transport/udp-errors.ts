// Parses the control data of a socket's error queue: which address reported which ICMP error.
// An ICMP packet is easy to forge, and hosts on the route send them too; only
// "port unreachable" counts here, together with the address that it came from.
//
//   cmsghdr  16: length u64 | level i32 | type i32
//   sock_extended_err 16: errno u32 | origin u8 | type u8 | code u8 | - | info u32 | data u32
//   then the sender's socket address: family u16 | port u16 | IPv4 4, or flow 4 and IPv6 16
import type { IpAddress } from '../cidr.ts'

const headerBytes = 16
const errorBytes = 16
const refused = 111

/** By family: level and type of the control message, origin, ICMP type and code. */
const portUnreachable = {
  4: { level: 0, type: 11, origin: 2, icmpType: 3, icmpCode: 3, family: 2, nameBytes: 16 },
  6: { level: 41, type: 25, origin: 3, icmpType: 1, icmpCode: 4, family: 10, nameBytes: 28 },
} as const

/** The address that reported a port as unreachable; null for any other control data. */
export function refuserOf(control: Uint8Array): Pick<IpAddress, 'family' | 'words'> | null {
  const view = new DataView(control.buffer, control.byteOffset, control.length)
  for (let at = 0; at + headerBytes <= control.length; ) {
    const length = Number(view.getBigUint64(at, true))
    if (length < headerBytes || at + length > control.length) return null
    for (const family of [4, 6] as const) {
      const refuser = refuserIn(view, at, length, family)
      if (refuser !== null) return refuser
    }
    at += Math.ceil(length / 8) * 8
  }
  return null
}

function refuserIn(
  view: DataView,
  at: number,
  length: number,
  family: 4 | 6,
): Pick<IpAddress, 'family' | 'words'> | null {
  const expected = portUnreachable[family]
  const error = at + headerBytes
  const name = error + errorBytes
  const isMatch =
    length >= headerBytes + errorBytes + expected.nameBytes &&
    view.getInt32(at + 8, true) === expected.level &&
    view.getInt32(at + 12, true) === expected.type &&
    view.getUint32(error, true) === refused &&
    view.getUint8(error + 4) === expected.origin &&
    view.getUint8(error + 5) === expected.icmpType &&
    view.getUint8(error + 6) === expected.icmpCode &&
    view.getUint16(name, true) === expected.family
  if (!isMatch) return null
  if (family === 4) return { family, words: [0, 0, 0, view.getUint32(name + 4)] }
  const word = (index: number) => view.getUint32(name + 8 + index * 4)
  return { family, words: [word(0), word(1), word(2), word(3)] }
}
