import { describe, expect, it } from 'vitest'
import { ProxyTally } from '../../../../src/upstream/proxy/meters.ts'
import { NodeStream } from '../../../../src/upstream/proxy/node-stream.ts'

/** The connection of a node that a stream pauses and resumes. */
class Source {
  isPaused = false
  isAborted = false
  /** Sends while it may, into a buffer that it writes over afterwards. */
  rest: Buffer
  stream: NodeStream | null = null

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
  const tally = new ProxyTally()
  const stream = new NodeStream(source, Buffer.from(first), tally)
  source.stream = stream
  return { source, stream, tally }
}

async function readAll(stream: NodeStream): Promise<string> {
  const chunks: Buffer[] = []
  for (let bytes = await stream.read(); bytes !== null; bytes = await stream.read())
    chunks.push(Buffer.from(bytes))
  return Buffer.concat(chunks).toString()
}

const value = `[${'"0123456789",'.repeat(60_000)}null]`

describe('NodeStream', () => {
  it('gives the result without its envelope, however the bytes are cut', async () => {
    for (const end of [',"id":1}\n', ',"id":1}', '}', ',"id":1,"jsonrpc":"2.0"} '])
      for (const [cut, size] of [
        [300_000, 50_000],
        [1, 65_536],
        [70_000, 200_000],
        [value.length - 3, 1],
      ] as const) {
        const { source, stream, tally } = open(value.slice(0, cut), value.slice(cut) + end)
        const read = readAll(stream)
        source.pump(size)
        expect((await read) === value).toBe(true)
        expect([tally.streams, tally.streamsBroken, tally.streamedBytes]).toEqual([
          1,
          0,
          value.length,
        ])
      }
  })

  it('pauses the node while its reader takes nothing', async () => {
    const { source, stream } = open(value.slice(0, 1000), `${value.slice(1000)},"id":1}`)
    source.pump()
    expect(source.isPaused).toBe(true)
    expect(source.rest.length).toBeGreaterThan(400_000)
    expect((await readAll(stream)) === value).toBe(true)
  })

  it('rejects when the node breaks off, or what it sent was no answer', async () => {
    const broken = open(value, '')
    broken.stream.fail()
    await expect(readAll(broken.stream)).rejects.toThrow('the node broke off')
    for (const rest of [',"id":1', '],"id":2}', ',"id":1}<html>', '"id":1}']) {
      const odd = open(value, rest)
      const read = readAll(odd.stream)
      odd.source.pump()
      await expect(read).rejects.toThrow('the node broke off')
      expect(odd.tally.streamsBroken).toBe(1)
    }
  })

  it('ends the call of a reader who leaves', async () => {
    const { source, stream } = open(value, 'more')
    await stream.read()
    stream.cancel()
    expect(source.isAborted).toBe(true)
    expect(await stream.read()).toBe(null)
  })
})
