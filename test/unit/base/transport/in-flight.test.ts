import { describe, expect, it } from 'vitest'
import { InFlight } from '../../../../src/base/transport/connections.ts'

describe('InFlight', () => {
  it('grants each address its permits and takes them back', () => {
    const inFlight = new InFlight(2)
    expect([inFlight.enter('a'), inFlight.enter('a'), inFlight.enter('a')]).toEqual([
      true,
      true,
      false,
    ])
    expect([inFlight.isAnyFull, inFlight.isFull('a'), inFlight.isFull('b')]).toEqual([
      true,
      true,
      false,
    ])
    expect(inFlight.enter('b')).toBe(true)
    inFlight.leave('a')
    expect([inFlight.isAnyFull, inFlight.enter('a'), inFlight.isAnyFull]).toEqual([
      false,
      true,
      true,
    ])
    inFlight.leave('a')
    inFlight.leave('a')
    inFlight.leave('b')
    expect([inFlight.isAnyFull, inFlight.isFull('a')]).toEqual([false, false])
  })

  it('counts a whole IPv6 /64 as one address', () => {
    const inFlight = new InFlight(2)
    expect([inFlight.enter('2001:db8::1'), inFlight.enter('2001:db8::2')]).toEqual([true, true])
    expect([inFlight.isFull('2001:db8::3'), inFlight.enter('2001:db8::3')]).toEqual([true, false])
    expect(inFlight.enter('2001:db8:0:1::1')).toBe(true)
    inFlight.leave('2001:db8::1')
    expect(inFlight.isFull('2001:db8::2')).toBe(false)
  })

  it('throws when a permit is returned twice', () => {
    const inFlight = new InFlight(2)
    inFlight.enter('192.0.2.1')
    inFlight.leave('192.0.2.1')
    expect(() => inFlight.leave('192.0.2.1')).toThrow('returned once')
  })
})
