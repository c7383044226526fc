import { describe, expect, it } from 'vitest'
import { CLOSING_BYTES, closingOf } from '../../../../src/base/jsonrpc/envelope.ts'
import { BodyStream } from '../../../../src/upstream/http-client/body-stream.ts'

/** A connection that a stream pauses and resumes. */
class Source {
  isPaused = false
  isAborted = false
  /** Sends while it is not paused, from a buffer that it overwrites afterwards. */
  rest: Buffer
  stream: BodyStream | null = null

  constructor(rest: string) {
    this.rest = Buffer.from(rest)
  }

  pause() {
    this.isPaused = true
  }

  resume() {
    this.isPaused = false
    this.pump()
  }

  abort() {
    this.isAborted = true
  }

  pump(size = 50_000) {
    while (!this.isPaused && this.rest.length > 0 && this.stream !== null) {
      const lent = Buffer.from(this.rest.subarray(0, size))
      this.rest = this.rest.subarray(size)
      this.stream.push(lent)
      lent.fill(0)
      if (this.rest.length === 0) this.stream.end()
    }
  }
}

function open(first: string, rest: string) {
  const source = new Source(rest)
  const stream = new BodyStream(source)
  stream.push(Buffer.from(first))
  stream.trim(0, CLOSING_BYTES, (tail) => {
    const end = closingOf(tail)
    return tail[end - 1] === ']' ? end : -1
  })
  source.stream = stream
  return { source, stream }
}

async function readAll(stream: BodyStream): Promise<string> {
  const chunks: Buffer[] = []
  for (let bytes = await stream.read(); bytes !== null; bytes = await stream.read())
    chunks.push(Buffer.from(bytes))
  return Buffer.concat(chunks).toString()
}

const value = `[${'"0123456789",'.repeat(60_000)}null]`
const short = `[${'"0123456789",'.repeat(10_000)}null]`

describe('a streamed body', () => {
  it('is the value without its envelope, however the bytes are cut', async () => {
    for (const end of [',"id":1}\n', ',"id":1}', '}', ',"id":1,"jsonrpc":"2.0"} '])
      for (const [text, cut, size] of [
        [value, 250_000, 50_000],
        [value, 1, 65_536],
        [value, 70_000, 61_111],
        [short, short.length - 3, 1],
      ] as const) {
        const { source, stream } = open(text.slice(0, cut), text.slice(cut) + end)
        let bytes = 0
        stream.onBytes = (count) => {
          bytes += count
        }
        const read = readAll(stream)
        source.pump(size)
        expect((await read) === text).toBe(true)
        expect([bytes, await stream.closed]).toEqual([text.length, 'ok'])
      }
  })

  it('pauses its connection while it is not read (backpressure)', async () => {
    const { source, stream } = open(value.slice(0, 1000), `${value.slice(1000)},"id":1}`)
    source.pump()
    expect(source.isPaused).toBe(true)
    expect(source.rest.length).toBeGreaterThan(400_000)
    expect((await readAll(stream)) === value).toBe(true)
  })

  it('rejects when its connection is lost, or its end is not that of an answer', async () => {
    const broken = open(short, '')
    broken.stream.fail()
    await expect(readAll(broken.stream)).rejects.toThrow('the node broke off')
    for (const rest of [',"id":1', '],"id":2}', ',"id":1}<html>', '"id":1}']) {
      const odd = open(short, rest)
      const read = readAll(odd.stream)
      odd.source.pump()
      await expect(read).rejects.toThrow('the node broke off')
      expect(await odd.stream.closed).toBe('broken')
    }
  })

  it('aborts its request when the reader cancels', async () => {
    const { source, stream } = open(short, 'more')
    await stream.read()
    stream.cancel()
    expect(source.isAborted).toBe(true)
    expect(await stream.read()).toBe(null)
    expect(await stream.closed).toBe('aborted')
  })

  it('is trimmed also when all of it came before', async () => {
    for (const [end, outcome] of [
      [',"id":1}', 'ok'],
      [',"id":2}', 'broken'],
    ] as const) {
      const stream = new BodyStream(new Source(''))
      stream.push(Buffer.from(`{"result":[1,2]${end}`))
      stream.end()
      expect(stream.peek(10)).toBe('{"result":')
      stream.trim(10, CLOSING_BYTES, (tail) => closingOf(tail))
      if (outcome === 'ok') expect(await readAll(stream)).toBe('[1,2]')
      else await expect(readAll(stream)).rejects.toThrow('the node broke off')
      expect(await stream.closed).toBe(outcome)
    }
  })
})
