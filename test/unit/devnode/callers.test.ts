import { describe, expect, it } from 'vitest'
import { isLocalCaller, secretCheck } from '../../../src/devnode/rpc-server.ts'

describe('secretCheck', () => {
  it('admits the secret alone', () => {
    const isAdmitted = secretCheck('abc')
    expect(isAdmitted('abc')).toBe(true)
    for (const sent of [undefined, '', 'ab', 'abd', 'abcd', 'abc, abc'])
      expect(isAdmitted(sent)).toBe(false)
  })

  it('admits everybody without a secret', () => {
    const isAdmitted = secretCheck(null)
    expect([isAdmitted(undefined), isAdmitted('any')]).toEqual([true, true])
  })
})

describe('isLocalCaller', () => {
  it('takes loopback names and addresses with any port', () => {
    for (const host of ['localhost', 'LOCALHOST:8899', '127.0.0.1:1', '127.9.0.1', '[::1]:8899'])
      expect(isLocalCaller({ host, origin: '' }), host).toBe(true)
    for (const origin of ['http://localhost:3000', 'https://127.0.0.1', 'http://[::1]:5173'])
      expect(isLocalCaller({ host: 'localhost', origin }), origin).toBe(true)
  })

  it('refuses other machines, names that only look local, and opaque origins', () => {
    const hosts = [
      '',
      'evil.example',
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      '0.0.0.0',
    ]
    for (const host of [...hosts, '127.0.0.1@evil.example', 'a b'])
      expect(isLocalCaller({ host, origin: '' }), host).toBe(false)
    for (const origin of ['null', 'http://evil.example', 'file://', 'evil'])
      expect(isLocalCaller({ host: 'localhost', origin }), origin).toBe(false)
  })
})
