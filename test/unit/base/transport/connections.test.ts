import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Addresses } from '../../../../src/base/transport/address.ts'
import { Connections, countRows } from '../../../../src/base/transport/connections.ts'
import { FakeClock } from '../../../testkit/fake-senders.ts'

const at = (...bytes: number[]) => ({ getRemoteAddress: () => new Uint8Array(bytes).buffer })
const stranger = at(192, 0, 2, 1)
const other = at(192, 0, 2, 2)
const proxy = at(10, 0, 0, 1)
const turn = () => new Promise((resolve) => setImmediate(resolve))

/** Connections with a table that the test writes. */
function limited(perAddressMax: number) {
  const clock = new FakeClock()
  const table = new Map<string, number>()
  const seen = { readings: 0, fails: '', warnings: [] as unknown[] }
  const connections = new Connections({
    perAddressMax,
    addresses: new Addresses(['10.0.0.0/8']),
    clock,
    log: { ...silentLog, warn: (...warning) => void seen.warnings.push(warning) },
    count: async () => {
      seen.readings++
      if (seen.fails !== '') throw Object.assign(new Error('no table'), { code: seen.fails })
      return new Map(table)
    },
  })
  return { connections, clock, table, seen }
}

const openAll = (connections: Connections, from: typeof stranger, count: number) =>
  Array.from({ length: count }, () => connections.opened(from)).filter(Boolean).length

describe('connections of an address', () => {
  it('are not counted while no address can be near the limit', () => {
    const { connections, seen } = limited(10)
    const unread = {
      getRemoteAddress: (): ArrayBuffer => {
        throw new Error('read')
      },
    }
    for (let count = 0; count < 5; count++) expect(connections.opened(unread)).toBe(true)
    expect(seen.readings).toBe(0)
    expect(() => connections.opened(unread)).toThrow('read')
  })

  it('are refused above the limit, in one burst too', () => {
    const { connections, seen } = limited(10)
    expect(openAll(connections, stranger, 50)).toBe(10)
    expect(connections.opened(other)).toBe(true)
    const warning = 'a connection was closed: its address has too many'
    expect(seen.warnings).toEqual([[warning, { address: '192.0.2.1' }]])
  })

  it('are not refused, nor counted, when they are gone before they are looked at', () => {
    const { connections, seen } = limited(10)
    expect(openAll(connections, at(), 50)).toBe(50)
    expect(seen.warnings).toEqual([])
  })

  it('are admitted once the table shows that others closed', async () => {
    const { connections, clock, table } = limited(10)
    openAll(connections, stranger, 10)
    await turn()
    openAll(connections, other, 5)
    table.set('192.0.2.1', 10)
    table.set('192.0.2.2', 5)
    clock.ms += 10_000
    connections.opened(stranger)
    await turn()
    expect(connections.opened(stranger)).toBe(false)
    table.set('192.0.2.1', 8)
    clock.ms += 10_000
    connections.opened(stranger)
    await turn()
    expect(openAll(connections, stranger, 5)).toBe(2)
  })

  it('are read from the table at most four times a second', async () => {
    const { connections, clock, seen } = limited(10)
    openAll(connections, stranger, 100)
    await turn()
    expect(seen.readings).toBe(1)
    openAll(connections, stranger, 100)
    await turn()
    expect(seen.readings).toBe(1)
    clock.ms += 251
    openAll(connections, stranger, 100)
    await turn()
    expect(seen.readings).toBe(2)
  })

  it('are unlimited for trusted proxies, with 0, and where there is no table', async () => {
    expect(openAll(limited(2).connections, proxy, 50)).toBe(50)
    expect(openAll(limited(0).connections, stranger, 50)).toBe(50)
    const { connections, seen } = limited(2)
    seen.fails = 'ENOENT'
    openAll(connections, stranger, 3)
    await turn()
    expect(openAll(connections, stranger, 50)).toBe(50)
  })

  it('stay limited where the table could not be read for lack of descriptors', async () => {
    const { connections, clock, table, seen } = limited(4)
    seen.fails = 'EMFILE'
    expect(openAll(connections, stranger, 10)).toBe(4)
    await turn()
    expect(connections.opened(stranger)).toBe(false)
    seen.fails = ''
    table.set('192.0.2.1', 1)
    clock.ms += 10_000
    connections.opened(other)
    await turn()
    expect(openAll(connections, stranger, 10)).toBe(3)
  })
})

describe('table of the kernel', () => {
  const row = (local: string, remote: string, state: string) =>
    `   1: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000     0        0 5 1\n`

  it('gives the open connections of a port by address, IPv6 by /64, IPv4-mapped as IPv4', async () => {
    const v4 = [
      row('0100007F:22C3', '010200C0:9CFE', '01'),
      row('0100007F:22C3', '010200C0:9CFF', '08'),
      row('0100007F:22C3', '010200C0:9D00', '06'),
      row('00000000:22C3', '00000000:0000', '0A'),
      row('0100007F:9D01', '0100007F:22C3', '01'),
    ]
    const local = '00000000000000000000000001000000:22C3'
    const v6 = [
      row(local, '0000000000000000FFFF0000010200C0:9CFE', '01'),
      row(local, 'B80D0120000000000000000001000000:9CFE', '01'),
      row(local, 'B80D0120000000000000000002000000:9CFE', '01'),
    ]
    const table = `  sl  local_address\n${v4.join('')}${v6.join('')}`
    const counts = new Map<string, number>()
    const seen = new Set<number | undefined>()
    async function* slices() {
      for (let at = 0; at < table.length; at += 100) {
        yield table.slice(at, at + 100)
        seen.add(counts.get('192.0.2.1'))
      }
    }
    await countRows(slices(), 0x22c3, counts)
    // Rows are counted as they are read, wherever a slice ends.
    expect([...seen]).toEqual([undefined, 1, 2, 3])
    expect([...counts]).toEqual([
      ['192.0.2.1', 3],
      ['2001:db8::/64', 2],
    ])
  })
})
