import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  confirmDestination,
  type Destination,
  failDestination,
  parseDestination,
  pauseDestination,
  proposeDestination,
  resumeDestination,
  servedAddress,
  strictRules,
} from '../../../../src/customers/subscriptions/subscription.ts'

const open = { ...strictRules, allowPrivate: true }

describe('parsing a destination', () => {
  it.each([
    ['8.8.8.8:20000', '8.8.8.8:20000'],
    ['[2A00:1450::5]:65535', '[2a00:1450::5]:65535'],
    ['1.1.1.1:1024', '1.1.1.1:1024'],
  ])('takes %s', (text, written) => {
    expect(parseDestination(text, strictRules)).toEqual({ ok: true, value: written })
  })

  it.each([
    ['example.org:9000', 'host names are not accepted'],
    ['8.8.8.8', 'write it as'],
    ['8.8.8.8:0', 'write it as'],
    ['8.8.8.8:65536', 'write it as'],
    ['8.8.8.8:9000 ', 'write it as'],
    ['2a00::5:9000', 'write it as'],
    ['[8.8.8.8]:9000', 'write it as'],
    ['[fe80::1%eth0]:9000', 'write it as'],
    ['[::ffff:8.8.8.8]:9000', '::ffff:'],
    ['8.8.8.8:1023', 'ports below 1024'],
    ['0.0.0.0:9000', 'unspecified'],
    ['[::]:9000', 'unspecified'],
    ['224.0.0.1:9000', 'multicast'],
    ['239.1.2.3:9000', 'multicast'],
    ['[ff02::1]:9000', 'multicast'],
    ['255.255.255.255:9000', 'broadcast'],
    ['169.254.169.254:9000', 'link-local'],
    ['[fe80::1]:9000', 'link-local'],
    ['192.0.2.1:9000', 'documentation'],
    ['198.51.100.9:9000', 'documentation'],
    ['203.0.113.9:9000', 'documentation'],
    ['[2001:db8::1]:9000', 'documentation'],
    ['[64:ff9b::7f00:1]:9000', 'translated'],
    ['[2002:7f00:1::]:9000', 'translated'],
    ['[::7f00:1]:9000', 'translated'],
  ])('refuses %s, private ones allowed or not', (text, why) => {
    for (const rules of [strictRules, open])
      expect(parseDestination(text, rules)).toMatchObject({
        ok: false,
        refusal: { code: 'bad-destination', message: expect.stringContaining(why) },
      })
  })

  it.each(['127.0.0.1:9000', '[::1]:9000', '10.1.1.1:9000', '172.31.0.1:9000', '[fd00::1]:9000'])(
    'accepts %s only where private addresses are allowed',
    (text) => {
      expect(parseDestination(text, strictRules).ok).toBe(false)
      expect(parseDestination(text, open)).toEqual({ ok: true, value: text })
    },
  )

  it('refuses our own listeners, also by the addresses of a wildcard listener', () => {
    const own = [
      { host: '127.0.0.1', port: 20_000 },
      { host: '0.0.0.0', port: 8899 },
    ]
    const rules = { ...open, own, interfaces: ['8.8.4.4'] }
    expect(parseDestination('127.0.0.1:20000', rules).ok).toBe(false)
    expect(parseDestination('127.0.0.9:8899', rules).ok).toBe(false)
    expect(parseDestination('8.8.4.4:8899', rules).ok).toBe(false)
    expect(parseDestination('8.8.8.8:8899', rules).ok).toBe(true)
    expect(parseDestination('127.0.0.2:20000', rules).ok).toBe(true)
  })

  it('refuses noise without throwing', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'0123456789.:[]abcf%') }), (text) => {
        const parsed = parseDestination(text, open)
        if (parsed.ok) expect(parseDestination(parsed.value, open)).toEqual(parsed)
      }),
    )
  })
})

describe('the state of a destination', () => {
  const pending: Destination = { address: 'a', state: 'pending', standing: null }
  const active: Destination = { address: 'a', state: 'active', standing: null }

  it('is pending for a new address, which receives only the challenge', () => {
    expect(proposeDestination(null, 'a')).toEqual(pending)
    expect(servedAddress(pending)).toBeNull()
  })

  it('becomes active by proof, and cannot be proven twice', () => {
    expect(confirmDestination(pending)).toEqual({ ok: true, value: active })
    expect(confirmDestination(active).ok).toBe(false)
  })

  it('keeps the old address until the new one is proven, also when that fails', () => {
    const changing = proposeDestination(active, 'b')
    expect(changing).toEqual({ address: 'b', state: 'pending', standing: 'a' })
    expect(servedAddress(changing)).toBe('a')
    const failed = failDestination(changing)
    expect(failed).toEqual({ ok: true, value: { ...changing, state: 'failed' } })
    if (failed.ok) {
      expect(servedAddress(failed.value)).toBe('a')
      expect(proposeDestination(failed.value, 'c').standing).toBe('a')
      expect(proposeDestination(failed.value, 'a')).toEqual(active)
      expect(confirmDestination(failed.value).ok).toBe(true)
    }
  })

  it('stops sending when paused, and resumes without a new proof', () => {
    const paused: Destination = { address: 'a', state: 'paused', standing: null }
    expect(pauseDestination(active)).toEqual({ ok: true, value: paused })
    expect(servedAddress(paused)).toBeNull()
    expect(resumeDestination(paused)).toEqual({ ok: true, value: active })
    expect(resumeDestination(active).ok).toBe(false)
    expect(pauseDestination(pending).ok).toBe(false)
    expect(pauseDestination(proposeDestination(active, 'b'))).toEqual({ ok: true, value: paused })
    expect(failDestination(paused).ok).toBe(false)
  })
})
