import { describe, expect, it } from 'vitest'
import {
  type Answer,
  type ByteStream,
  encodedBytes,
  encodedText,
  failure,
  type Message,
  MessageStream,
  rpcErrors,
  streamed,
  value,
} from '../../../../src/base/jsonrpc/build.ts'
import { type Call, parseRequest } from '../../../../src/base/jsonrpc/parse.ts'
import {
  type Allowance,
  Answerer,
  admit,
  type CallBudget,
  type RequestRefusal,
  refusalMessage,
  responseMessage,
} from '../../../../src/base/jsonrpc/serve.ts'

class Caller implements CallBudget {
  readonly spent: (string | readonly string[])[] = []
  readonly bugs: unknown[] = []
  permits: number
  readonly #allowance: Allowance

  constructor({ permits = 10, allowance = fine } = {}) {
    this.permits = permits
    this.#allowance = allowance
  }

  spend(methods: string | readonly string[]): Allowance {
    this.spent.push(methods)
    return this.#allowance
  }

  enter(): boolean {
    if (this.permits === 0) return false
    this.permits--
    return true
  }

  leave(): void {
    this.permits++
  }
}

const fine: Allowance = { ok: true, reason: 'ok', retryAfterMs: 0 }

let source: Source

/** A result in three pieces, or one that fails after the first. */
class Source implements ByteStream {
  readonly #pieces = ['{"s":', '"o', 'k"}']
  readonly #breaksOff: boolean
  isCancelled = false
  constructor(breaksOff = false) {
    this.#breaksOff = breaksOff
  }
  async read() {
    if (this.#breaksOff && this.#pieces.length < 3) throw new Error('broken off')
    const piece = this.#pieces.shift()
    return piece === undefined ? null : Buffer.from(piece)
  }
  cancel() {
    this.isCancelled = true
  }
}

async function textOf(message: Message): Promise<string> {
  if (!(message instanceof MessageStream)) return message.toString()
  const chunks: Uint8Array[] = []
  for await (const chunk of message) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

function answer({ method, params }: Call): Answer | Promise<Answer> {
  if (method === 'echo') return value(params)
  if (method === 'text') return encodedText('[1]')
  if (method === 'bytes') return encodedBytes(Buffer.from('{"b":1}'))
  if (method === 'stream') return streamed(source)
  if (method === 'later') return Promise.resolve(value('late'))
  if (method === 'throws') throw new Error('a bug')
  if (method === 'rejects') return Promise.reject(new Error('a bug'))
  return failure(rpcErrors.unknownMethod)
}

interface Served {
  readonly message: Message
  readonly refusal: RequestRefusal | null
}

/** What an endpoint does with a body. */
async function serve(body: string, who: Caller, end = ''): Promise<Served> {
  const request = parseRequest(Buffer.from(body), 5)
  const { refusal } = admit(request, who)
  if (refusal !== null) return { message: refusalMessage(request, refusal.error, end), refusal }
  const answerer = new Answerer(answer, (error) => who.bugs.push(error))
  const answers = await answerer.answer(request, who, who)
  return { message: responseMessage(request, answers, end), refusal: null }
}

async function run(body: string, who = new Caller()): Promise<Served & { json: unknown }> {
  const served = await serve(body, who)
  const text = served.message.toString()
  return { ...served, json: text === '' ? '' : JSON.parse(text) }
}

const call = (method: string, id: string, params = '[]') =>
  `{"jsonrpc":"2.0","method":"${method}","params":${params},"id":${id}}`

describe('admit, answer, responseMessage', () => {
  it('answers values, ready text, ready bytes and late answers under the id as written', async () => {
    expect((await run(call('echo', '1.0', '[2]'))).message).toBe(
      '{"jsonrpc":"2.0","result":[2],"id":1.0}',
    )
    expect((await run(call('text', '"a"'))).message).toBe('{"jsonrpc":"2.0","result":[1],"id":"a"}')
    expect((await run(call('bytes', '2'))).json).toEqual({
      jsonrpc: '2.0',
      result: { b: 1 },
      id: 2,
    })
    expect((await run(call('later', '3'))).json).toEqual({ jsonrpc: '2.0', result: 'late', id: 3 })
  })

  it('answers an unknown method with -32601 Method not found', async () => {
    const { json } = await run(call('nothing', '1'))
    expect(json).toEqual({
      jsonrpc: '2.0',
      error: { code: -32601, message: 'Method not found' },
      id: 1,
    })
  })

  it('answers a method that throws with -32603, frees its permit, reports the error', async () => {
    for (const method of ['throws', 'rejects']) {
      const who = new Caller()
      expect((await run(call(method, '1'), who)).json).toMatchObject({ error: { code: -32603 } })
      expect([who.permits, who.bugs]).toEqual([10, [new Error('a bug')]])
    }
  })

  it('answers a batch in order, without an element for notifications', async () => {
    const who = new Caller()
    const body = `[${call('later', '1')},{"jsonrpc":"2.0","method":"echo"},5,${call('bytes', '2')}]`
    const { json } = await run(body, who)
    expect(json).toEqual([
      { jsonrpc: '2.0', result: 'late', id: 1 },
      { jsonrpc: '2.0', error: { code: -32600, message: 'Invalid request' }, id: null },
      { jsonrpc: '2.0', result: { b: 1 }, id: 2 },
    ])
    expect(who.spent).toEqual([['later', 'echo', '', 'bytes']])
    expect(who.permits).toBe(10)
  })

  it('answers notifications with nothing, alone or as a batch', async () => {
    expect((await run('{"jsonrpc":"2.0","method":"echo"}')).message).toBe('')
    expect((await run('[{"jsonrpc":"2.0","method":"echo"}]')).message).toBe('')
  })

  it('charges what cannot be parsed', async () => {
    const who = new Caller()
    expect((await run('{', who)).json).toMatchObject({ error: { code: -32700 }, id: null })
    expect((await run('[]', who)).json).toMatchObject({ error: { code: -32600 }, id: null })
    expect(who.spent).toEqual(['', ''])
  })

  it('refuses a call over its budget with -32429 under its id', async () => {
    const who = new Caller({ allowance: { ok: false, reason: 'rate', retryAfterMs: 1200 } })
    const served = await run(call('echo', '"x"'), who)
    expect(served.refusal).toMatchObject({ isExhausted: true, retryAfterMs: 1200 })
    expect(served.json).toMatchObject({
      error: { code: -32429, data: { reason: 'rate' } },
      id: 'x',
    })
    expect((await run('{', who)).json).toMatchObject({ error: { code: -32429 }, id: null })
  })

  it('refuses a batch whole, one error per item, ids kept', async () => {
    const who = new Caller({ allowance: { ok: false, reason: 'rate', retryAfterMs: 5 } })
    const { json } = await run(`[${call('echo', '1')},${call('text', '"b"')}]`, who)
    expect(json).toMatchObject([
      { error: { code: -32429 }, id: 1 },
      { error: { code: -32429 }, id: 'b' },
    ])
    expect((await run(`[${call('echo', '7')}]`, who)).json).toMatchObject([{ id: 7 }])
  })

  it('answers a batch that costs more than the burst with -32600, not retryable', async () => {
    const who = new Caller({ allowance: { ok: false, reason: 'too-expensive', retryAfterMs: 0 } })
    const served = await run(`[${call('echo', '1')}]`, who)
    expect([served.refusal?.isExhausted, served.json]).toMatchObject([
      false,
      [{ error: { code: -32600 }, id: 1 }],
    ])
  })

  it('refuses a batch whole when not every call gets an in-flight permit', async () => {
    const who = new Caller({ permits: 1 })
    const served = await run(`[${call('later', '1')},${call('later', '2')}]`, who)
    expect(served.refusal?.isExhausted).toBe(true)
    expect(served.json).toMatchObject([{ error: { code: -32429 } }, { error: { code: -32429 } }])
    expect(who.permits).toBe(1)
    const none = new Caller({ permits: 0 })
    const full = await run(call('echo', '1'), none)
    expect(full.refusal?.isExhausted).toBe(true)
    // Neither was charged.
    expect([...who.spent, ...none.spent]).toEqual([[], []])
  })

  it('keeps no permit of a request that the budget refuses', async () => {
    const allowance = { ok: false, reason: 'rate', retryAfterMs: 5 } as const
    const who = new Caller({ allowance })
    await run(`[${call('later', '1')},${call('later', '2')},7]`, who)
    expect(who.permits).toBe(10)
  })

  it('streams a long answer, and keeps its permit until the stream ends', async () => {
    const who = new Caller()
    source = new Source()
    const served = await serve(call('stream', '"x"'), who)
    expect(who.permits).toBe(9)
    expect(await textOf(served.message)).toBe('{"jsonrpc":"2.0","result":{"s":"ok"},"id":"x"}')
    expect(who.permits).toBe(10)
  })

  it('streams inside a batch, in order, and appends the end of the endpoint', async () => {
    source = new Source()
    const body = `[${call('later', '1')},${call('stream', '2')},${call('bytes', '3')}]`
    const who = new Caller()
    const text = await textOf((await serve(body, who, '\n')).message)
    expect(text.endsWith(']\n')).toBe(true)
    expect(JSON.parse(text)).toEqual([
      { jsonrpc: '2.0', result: 'late', id: 1 },
      { jsonrpc: '2.0', result: { s: 'ok' }, id: 2 },
      { jsonrpc: '2.0', result: { b: 1 }, id: 3 },
    ])
    expect(who.permits).toBe(10)
    expect((await serve(call('bytes', '1'), who, '\n')).message.toString()).toBe(
      '{"jsonrpc":"2.0","result":{"b":1},"id":1}\n',
    )
  })

  it('rejects when the source of a stream fails, and frees the permit', async () => {
    const who = new Caller()
    source = new Source(true)
    const { message } = await serve(call('stream', '1'), who)
    await expect(textOf(message)).rejects.toThrow('broken off')
    expect(who.permits).toBe(10)
  })

  it('cancels a stream that is not read: a notification, a client that disconnected', async () => {
    const who = new Caller()
    source = new Source()
    await serve('{"jsonrpc":"2.0","method":"stream"}', who)
    expect([source.isCancelled, who.permits]).toEqual([true, 10])
    source = new Source()
    const { message } = await serve(call('stream', '1'), who)
    await (message as MessageStream).return()
    expect([source.isCancelled, who.permits]).toEqual([true, 10])
  })
})
