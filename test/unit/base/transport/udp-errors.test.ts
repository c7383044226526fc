// Parses control data of the error queue as Linux wrote it.
import { describe, expect, test } from 'vitest'
import { parseAddress } from '../../../../src/base/cidr.ts'
import { refuserOf } from '../../../../src/base/transport/udp-send.ts'
import { randomBytes, randomOf } from '../../../testkit/shreds.ts'

const hex = (text: string) => Uint8Array.from(Buffer.from(text.replaceAll(/\s/g, ''), 'hex'))
const recorded = {
  // cmsghdr | sock_extended_err | address of the sender of the ICMP packet
  closedV4: hex(`3000000000000000 00000000 0b000000 6f000000 02030300 00000000 00000000
    02000000 7f000001 0000000000000000`),
  closedV6: hex(`3c00000000000000 29000000 19000000 6f000000 03010400 00000000 00000000
    0a000000 00000000 00000000000000000000000000000001 00000000`),
  forgedBy77: hex(`3000000000000000 00000000 0b000000 6f000000 02030300 00000000 00000000
    02000000 7f00004d 0000000000000000`),
  hostUnreachable: hex(`3000000000000000 00000000 0b000000 71000000 02030100 00000000 00000000
    02000000 7f000001 0000000000000000`),
  timeExceeded: hex(`3000000000000000 00000000 0b000000 71000000 020b0000 00000000 00000000
    02000000 7f000001 0000000000000000`),
  tooLongHere: hex(`3c00000000000000 29000000 19000000 5a000000 01000000 00000100 00000000
    00000000 00000000 00000000000000000000000000000000 00000000`),
}
const words = (text: string) => parseAddress(text)!.words

describe('the address that reported a port as unreachable', () => {
  test('is read from ICMP 3/3 and ICMPv6 1/4', () => {
    expect(refuserOf(recorded.closedV4)).toEqual({ family: 4, words: words('127.0.0.1') })
    expect(refuserOf(recorded.closedV6)).toEqual({ family: 6, words: words('::1') })
    expect(refuserOf(recorded.forgedBy77)).toEqual({ family: 4, words: words('127.0.0.77') })
  })

  test('is found after other control messages', () => {
    const timestamp = hex('1500000000000000 01000000 1d000000 0102030405 000000')
    const both = Buffer.concat([timestamp, recorded.closedV4])
    expect(refuserOf(both)).toEqual({ family: 4, words: words('127.0.0.1') })
  })

  test('is null for any other error', () => {
    for (const name of ['hostUnreachable', 'timeExceeded', 'tooLongHere'] as const)
      expect(refuserOf(recorded[name]), name).toBeNull()
    // The right type and code, but made by this machine and not by ICMP.
    const local = Uint8Array.from(recorded.closedV4)
    local[20] = 1
    expect(refuserOf(local)).toBeNull()
  })

  test('is null for truncated or random bytes, which never throw', () => {
    for (const bytes of [recorded.closedV4, recorded.closedV6])
      for (let end = 0; end < bytes.length; end += 1)
        expect(refuserOf(bytes.subarray(0, end))).toBeNull()
    const next = randomOf(3)
    for (let round = 1; round <= 2000; round += 1) {
      const bytes = randomBytes(Math.floor(next() * 128), round)
      // A plausible length, so that the parser reads further.
      if (bytes.length >= 8) bytes.set([bytes.length & 0xff, 0, 0, 0, 0, 0, 0, 0])
      expect(refuserOf(bytes)).toBeNull()
    }
  })
})
