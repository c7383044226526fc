import { describe, expect, it } from 'vitest'
import {
  type ByteStream,
  encodedBytes,
  encodedText,
  failure,
} from '../../../../src/base/jsonrpc/build.ts'
import { AnswerCache } from '../../../../src/upstream/proxy/answer-cache.ts'

const text = (length: number) => encodedText(`"${'x'.repeat(length - 2)}"`)

/** A stream whose blocks are written over, as those of a node are. */
function streamOf(...pieces: string[]): ByteStream & { isCancelled: boolean } {
  const block = Buffer.alloc(16)
  return {
    isCancelled: false,
    async read() {
      const piece = pieces.shift()
      if (piece === undefined) return null
      if (piece === '!') throw new Error('broken off')
      return block.subarray(0, block.write(piece))
    },
    cancel() {
      this.isCancelled = true
    },
  }
}

async function readAll(stream: ByteStream): Promise<string> {
  let all = ''
  for (let bytes = await stream.read(); bytes !== null; bytes = await stream.read())
    all += Buffer.from(bytes).toString()
  return all
}

describe('AnswerCache', () => {
  it('keeps results, and neither null nor errors', () => {
    const cache = new AnswerCache(100_000)
    cache.put('a', encodedText('5'))
    cache.put('b', encodedBytes(Buffer.from('[1,'), Buffer.from('2]')))
    cache.put('c', encodedText('null'))
    cache.put('d', failure({ code: 1, message: 'no' }))
    expect(cache.get('a')).toEqual(encodedText('5'))
    expect(cache.get('b')).toEqual(encodedBytes(Buffer.from('[1,2]')))
    expect([cache.get('c'), cache.get('d'), cache.size]).toEqual([null, null, 2])
  })

  it('is bounded by bytes, drops what was not used longest, refuses what is too long', () => {
    const cache = new AnswerCache(100_000)
    for (let number = 0; number < 200; number++) {
      cache.put(`key ${number}`, text(4_000))
      cache.get('key 0')
      expect(cache.bytes).toBeLessThanOrEqual(100_000)
    }
    expect(cache.get('key 0')).not.toBe(null)
    expect(cache.get('key 1')).toBe(null)
    expect(cache.get('key 199')).not.toBe(null)
    cache.put('long', text(20_000))
    expect(cache.get('long')).toBe(null)
    const none = new AnswerCache(0)
    none.put('a', encodedText('5'))
    expect([none.get('a'), none.bytes]).toEqual([null, 0])
  })

  it('counts an entry once that is put twice', () => {
    const cache = new AnswerCache(100_000)
    cache.put('a', text(4_000))
    const { bytes } = cache
    cache.put('a', text(4_000))
    expect([cache.bytes, cache.size]).toEqual([bytes, 1])
  })

  it('collects a stream on its way, copies what it keeps, and gives the bytes on', async () => {
    const cache = new AnswerCache(100_000)
    expect(await readAll(cache.collect('a', streamOf('[1,', '2,', '3]')))).toBe('[1,2,3]')
    expect(cache.get('a')).toEqual(encodedBytes(Buffer.from('[1,2,3]')))
  })

  it('keeps nothing of a stream that breaks off, is cancelled or grows too long', async () => {
    const cache = new AnswerCache(400)
    await expect(readAll(cache.collect('a', streamOf('[1,', '!')))).rejects.toThrow('broken off')
    const source = streamOf('[1,', '2]')
    const stream = cache.collect('b', source)
    await stream.read()
    stream.cancel()
    expect(source.isCancelled).toBe(true)
    const long = [...Array(40).keys()].map(() => '0123456789')
    expect(await readAll(cache.collect('c', streamOf(...long)))).toHaveLength(400)
    expect([cache.get('a'), cache.get('b'), cache.get('c'), cache.bytes]).toEqual([
      null,
      null,
      null,
      0,
    ])
  })
})
