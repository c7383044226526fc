// What a node says is taken apart without being parsed.
import { describe, expect, it } from 'vitest'
import { membersOf, readMessage, slotOf } from '../../../../src/upstream/pubsub/message.ts'

const result =
  '{"context":{"slot":7},"value":{"lamports":18446744073709551615,"data":["","base64"]}}'
const notice = (inside: string) =>
  `{"jsonrpc":"2.0","method":"accountNotification","params":{"result":${inside},"subscription":24040}}`

describe('a notification', () => {
  it('gives its result byte for byte', () => {
    expect(readMessage(notice(result))).toEqual({ kind: 'notice', subscription: '24040', result })
    expect(readMessage(notice('55'))).toEqual({
      kind: 'notice',
      subscription: '24040',
      result: '55',
    })
  })

  it('is not misled by a result that looks like its own end', () => {
    const sly = '{"value":{"logs":["}}",",\\"subscription\\":1}}"],"subscription":3}}'
    expect(readMessage(notice(sly))).toMatchObject({ subscription: '24040', result: sly })
    const nested = '{"a":{"b":1,"subscription":9}}'
    expect(readMessage(notice(nested))).toMatchObject({ subscription: '24040', result: nested })
  })

  it('is read in any order and spacing of its members', () => {
    const text = `{ "method" : "transactionNotification", "jsonrpc": "2.0",
      "params": { "subscription": 5, "result": ${result} } }`
    expect(readMessage(text)).toEqual({ kind: 'notice', subscription: '5', result })
  })
})

describe('an answer', () => {
  it('gives its id and result, or its error as the node wrote it', () => {
    expect(readMessage('{"jsonrpc":"2.0","result":23784,"id":1}')).toEqual({
      kind: 'answer',
      id: '1',
      result: '23784',
    })
    const text = '{"code":-32602,"message":"Invalid param","data":{"big":18446744073709551615}}'
    expect(readMessage(`{"jsonrpc":"2.0","error":${text},"id":2}`)).toEqual({
      kind: 'error',
      id: '2',
      error: { code: -32602, message: 'Invalid param', text },
    })
    expect(readMessage('{"error":[],"id":3}')).toMatchObject({ error: { code: -32603 } })
  })
})

describe('noise', () => {
  it('is refused and never thrown at', () => {
    const noise = ['', '[]', 'null', '{', '{"a"', '{"a":', '{"a":1', '{"method":"x"}', '"', '{}']
    for (const text of noise) expect(readMessage(text)).toBeNull()
    expect(readMessage('{"method":"x","params":{"result":1}}')).toBeNull()
    const whole = notice(result)
    for (let length = 0; length < whole.length; length++) {
      const read = readMessage(whole.slice(0, length))
      expect(read).toBeNull()
    }
    for (let round = 0; round < 2000; round++) {
      const bytes = Buffer.from(whole)
      bytes[Math.floor(Math.random() * bytes.length)] = Math.floor(Math.random() * 256)
      readMessage(bytes.toString('latin1'))
    }
  })

  it('nests no deeper than is lawful', () => {
    const deep = `{"id":1,"result":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    expect(readMessage(deep)).toBeNull()
  })
})

describe('parts of a result', () => {
  it('are found where they stand', () => {
    expect(slotOf(result)).toBe(7)
    expect(slotOf('{"context":{"apiVersion":"4.0.0","slot":9},"value":null}')).toBe(9)
    expect(slotOf('{"value":1,"context":{"x":1,"slot":11}}')).toBe(11)
    expect(slotOf('5')).toBeNull()
    expect(membersOf(' {"a" : [1, {"b":2}] , "c":"}" } ')).toEqual({ a: '[1, {"b":2}]', c: '"}"' })
  })
})
