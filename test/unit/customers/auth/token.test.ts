import { describe, expect, it } from 'vitest'
import {
  basicPair,
  type Credentials,
  type Endpoint,
  refusedToken,
  tokenIn,
} from '../../../../src/customers/auth/token.ts'

const bundle: readonly Endpoint[] = ['rpc', 'websocket', 'grpc']

describe('finding the token of a request', () => {
  it.each(bundle)('x-token and Authorization: Bearer are equivalent on %s', (endpoint) => {
    expect(tokenIn(endpoint, { xToken: 'a' })).toBe('a')
    expect(tokenIn(endpoint, { authorization: 'Bearer a' })).toBe('a')
    expect(tokenIn(endpoint, { authorization: 'bEaReR   a ' })).toBe('a')
  })

  it.each<[keyof Credentials]>([['xApiKey'], ['queryApiKey'], ['queryApi_key']])(
    'reads %s on rpc only',
    (place) => {
      const credentials: Credentials = { [place]: 'a' }
      expect(tokenIn('rpc', credentials)).toBe('a')
      for (const endpoint of ['websocket', 'grpc', 'metrics', 'indexer'] as const)
        expect(tokenIn(endpoint, credentials)).toBeNull()
    },
  )

  it('tells a token that was not sent from one that is not valid', () => {
    expect(refusedToken('rpc', {})).toBe('none')
    expect(refusedToken('rpc', { xToken: '', authorization: 'Basic a' })).toBe('none')
    expect(refusedToken('websocket', { queryApiKey: 'a' })).toBe('none')
    expect(refusedToken('rpc', { queryApiKey: 'a' })).toBe('invalid')
    expect(refusedToken('grpc', { authorization: 'Bearer a' })).toBe('invalid')
    expect(refusedToken('grpc', { repeated: true })).toBe('invalid')
  })

  it('takes the first token present, in the order of the contract', () => {
    const places: Credentials = {
      xToken: '1',
      authorization: 'Bearer 2',
      xApiKey: '3',
      queryApiKey: '4',
      queryApi_key: '5',
    }
    const { xToken: _1, ...two } = places
    const { authorization: _2, ...three } = two
    const { xApiKey: _3, ...four } = three
    const { queryApiKey: _4, ...five } = four
    const found = [places, two, three, four, five].map((given) => tokenIn('rpc', given))
    expect(found).toEqual(['1', '2', '3', '4', '5'])
  })

  it('treats an empty value or another scheme as absent', () => {
    expect(tokenIn('rpc', { xToken: '', authorization: 'Bearer b' })).toBe('b')
    for (const authorization of ['Bearer', 'Bearer ', 'Bearer  ', 'Basic eDp5', 'Bearerx y', ''])
      expect(tokenIn('rpc', { authorization, xApiKey: 'c' })).toBe('c')
  })

  it('reads the token of a handshake on websocket only, after the headers', () => {
    expect(tokenIn('websocket', { handshakeToken: 'a' })).toBe('a')
    expect(tokenIn('websocket', { authorization: 'Bearer b', handshakeToken: 'a' })).toBe('b')
    for (const endpoint of ['rpc', 'grpc', 'metrics', 'indexer'] as const)
      expect(tokenIn(endpoint, { handshakeToken: 'a' })).toBeNull()
  })

  it('refuses a repeated header even when another header has a token', () => {
    expect(tokenIn('rpc', { xToken: 'a', repeated: true })).toBeNull()
  })

  it('reads only x-token on the indexer', () => {
    expect(tokenIn('indexer', { xToken: 'a', authorization: 'Basic eDp5' })).toBe('a')
    expect(tokenIn('indexer', { authorization: 'Bearer a' })).toBeNull()
  })
})

describe('database credentials', () => {
  const encode = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

  it('come from HTTP Basic or from the two headers of ClickHouse', () => {
    expect(basicPair({ authorization: encode('u:p') })).toEqual({ user: 'u', password: 'p' })
    expect(basicPair({ authorization: encode('u:p:q') })).toEqual({ user: 'u', password: 'p:q' })
    expect(basicPair({ authorization: encode('u:p').replace('Basic', 'bASIC') })).not.toBeNull()
    const named = { clickHouseUser: 'u', clickHouseKey: 'p' }
    expect(basicPair(named)).toEqual({ user: 'u', password: 'p' })
    expect(basicPair({ authorization: encode('a:b'), ...named })?.user).toBe('a')
    expect(basicPair({ authorization: 'Bearer x', ...named })?.user).toBe('u')
  })

  it.each(['', 'Basic', 'Basic ', 'Basic !!!', encode('nocolon'), encode(':p'), encode('u:')])(
    'refuses %j',
    (authorization) => {
      expect(basicPair({ authorization })).toBeNull()
    },
  )

  it('refuses an incomplete pair and one that is too long', () => {
    expect(basicPair({ clickHouseUser: 'u' })).toBeNull()
    expect(basicPair({ authorization: encode(`u:${'p'.repeat(1000)}`) })).toBeNull()
  })
})
