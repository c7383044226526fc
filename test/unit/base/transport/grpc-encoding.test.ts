import { describe, expect, it } from 'vitest'
import { encodingAskedBy } from '../../../../src/base/transport/grpc-encoding.ts'

const both = ['zstd', 'gzip']

describe('the compression a caller asks for', () => {
  it.each([
    // The headers of tonic with accept_compressed, of grpc-java, and of grpc-go with gzip.
    ['zstd,identity', undefined, 'zstd'],
    ['gzip,identity', undefined, 'gzip'],
    ['gzip', undefined, 'gzip'],
    ['gzip, zstd, identity', undefined, 'gzip'],
    ['deflate,zstd', undefined, 'zstd'],
    // grpc-js and the C core list all they can read, identity first, unless they compress.
    ['identity,deflate,gzip', undefined, null],
    ['identity,deflate,gzip', 'gzip', 'gzip'],
    ['identity,deflate,gzip', 'deflate', null],
    ['identity,deflate,gzip', 'identity', null],
    // Compresses its requests, and cannot read such answers.
    ['identity', 'gzip', null],
    [undefined, 'gzip', null],
    [undefined, undefined, null],
    ['', undefined, null],
    ['br', undefined, null],
  ])('of accept %s and encoding %s is %s', (accept, own, expected) => {
    const headers = { 'grpc-accept-encoding': accept, 'grpc-encoding': own }
    expect(encodingAskedBy(headers, both)).toBe(expected)
  })

  it('is one that the operator allows', () => {
    const headers = { 'grpc-accept-encoding': 'gzip,zstd,identity' }
    expect(encodingAskedBy(headers, ['zstd'])).toBe('zstd')
    expect(encodingAskedBy(headers, [])).toBeNull()
    expect(encodingAskedBy({ ...headers, 'grpc-encoding': 'gzip' }, ['zstd'])).toBeNull()
  })
})
