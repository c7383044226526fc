import { describe, expect, test } from 'vitest'
import { NodeSecrets } from '../../../../src/upstream/node-pool/node-secrets.ts'

const address = 'https://me:pass1234@rpc.example.com:8443/v2/k3y0f-provider?api-key=abcd'

describe('text from a node', () => {
  test('is withheld when it contains its host, its key or its token', () => {
    const secrets = new NodeSecrets({ rpc: address, ws: '', grpc: '', xToken: 'token-of-node' })
    for (const secret of [
      'token-of-node',
      'rpc.example.com:8443',
      'RPC.example.com',
      'k3y0f-provider',
      'abcd',
      'pass1234',
      'me:pass1234',
      Buffer.from('me:pass1234').toString('base64'),
      'rpc%2Eexample%2Ecom',
      'rpc%252Eexample%252Ecom',
      '\\u0061bcd',
      '\\\\u0061bcd',
    ])
      expect(secrets.isIn(`cannot serve ${secret}.`), secret).toBe(true)
    expect(secrets.isIn('cannot serve example.com: 8443 is not me')).toBe(false)
  })

  test('is passed on when it only shares a common word with the address', () => {
    const secrets = new NodeSecrets({ rpc: 'http://node:8899/mainnet-beta', ws: 'ws://node/' })
    expect(secrets.isIn('the node of mainnet-beta is behind')).toBe(false)
    for (const text of ['at node:8899', 'at ws://node', 'at node:80', 'http:\\/\\/node'])
      expect(secrets.isIn(text), text).toBe(true)
  })

  test('is found after an IPv6 address and characters that a URL encodes', () => {
    const secrets = new NodeSecrets({ rpc: 'http://[2001:db8::7]:8899/k%C3%A9y-12345678' })
    for (const text of ['[2001:db8::7]:8899', '2001:db8::7', 'kéy-12345678', 'k%c3%a9y-12345678'])
      expect(secrets.isIn(text), text).toBe(true)
  })

  test('is withheld when it is encoded deeper than the bound', () => {
    const nested = `%${'25'.repeat(8)}41`
    expect(new NodeSecrets({ rpc: address }).isIn(nested)).toBe(true)
    expect(new NodeSecrets({ rpc: address }).isIn('100% of %20 and \\n')).toBe(false)
  })

  test('is read without a throw for any address', () => {
    const secrets = new NodeSecrets({ rpc: 'http://a%zz:b%@host.example/%zz', ws: 'no address' })
    expect(secrets.isIn('b%@host.example')).toBe(true)
    expect(secrets.isIn('%zz')).toBe(false)
  })

  test('of an error is replaced as a whole, and its code stays', () => {
    const secrets = new NodeSecrets({ rpc: address })
    const good = { code: -32002, message: 'Blockhash not found', data: { err: 'x' } }
    expect(secrets.redactError(good)).toBe(good)
    const leaks = { code: -32002, message: 'no', data: { at: ['rpc.example.com'] } }
    expect(secrets.redactError(leaks)).toEqual({ code: -32002, message: 'Internal error' })
    const asText = { code: 1, message: 'no', text: '{"code":1,"x":"rpc\\u002eexample.com"}' }
    expect(secrets.redactError(asText)).toEqual({ code: 1, message: 'Internal error' })
  })
})
