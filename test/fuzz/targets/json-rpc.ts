// JSON-RPC: requests of customers and answers of nodes, beside JSON.parse.
import { ok } from 'node:assert'
import { closingOf, openingOf, splitAnswer } from '../../../src/base/jsonrpc/envelope.ts'
import { DEPTH_MAX, type Item, KnownCalls, parseRequest } from '../../../src/base/jsonrpc/parse.ts'
import { slowParse } from '../../testkit/slow-jsonrpc.ts'
import { same, type Target, text } from '../target.ts'

const itemsMax = 5
const knownRuns = 2

export const jsonRpcRequest: Target = {
  bytesMax: 8192,
  words: [
    ...['"jsonrpc"', '"2.0"', '"id"', '"method"', '"params"', '{"jsonrpc":"2.0","id":', '{"id":'],
    ...[',"id":', 'null', 'true', '\\u0069', '\\"', '\\', '1e1', '[]', '{}', '\u2028', '\ufeff'],
    ...['"__proto__":', '\\ud800', '\n', '"ping"'],
  ],
  seeds: () => [
    text('{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[]}'),
    text('{"jsonrpc":"2.0","method":"a","params":{"x":[1,"\\u00e9",null,true]},"id":"7"}'),
    text(
      '[{"jsonrpc":"2.0","method":"a"},{"id":1.0},7,null,{"jsonrpc":"2.0","method":"b","id":2}]',
    ),
    text('{"id":18446744073709551615,"jsonrpc":"2.0","method":"é"}'),
    text(' {"\\u0069d":1,"jsonrpc":"2.0","method":"x","id":{}} '),
    text('[]'),
  ],
  run(input) {
    const { isBatch, items } = parseRequest(input, itemsMax)
    const memory = new KnownCalls()
    for (let run = 0; run < knownRuns; run++)
      same(parseRequest(input, itemsMax, memory), { isBatch, items }, 'as a known call')
    const found = slowParse(decoded(input))
    const isRefused = items[0]!.method === null && items[0]!.error.code === -32700
    if (found === null) ok(isRefused, 'no JSON is refused')
    else if (isRefused) ok(depthOf(input) >= DEPTH_MAX, 'JSON that is not deep is read')
    else if (found.length > 0 && found.length <= itemsMax) same(items.map(plain), found, 'items')
    else ok(items.length === 1 && items[0]!.method === null, 'too many or none')
  },
}

/** As slowParse shows it. */
function plain(item: Item) {
  const id: unknown = item.id === null ? undefined : JSON.parse(item.id)
  if (item.method === null) return { method: null, id }
  if (item.paramsText !== '') same(JSON.parse(item.paramsText), item.params ?? null, 'params')
  return { method: item.method, id, params: item.params }
}

function decoded(input: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(input)
  } catch {
    return '\0'
  }
}

/** At least as deep as any value in it. */
function depthOf(input: Buffer): number {
  let depth = 0
  let most = 0
  for (const byte of input) {
    if (byte === 0x5b || byte === 0x7b) most = Math.max(most, ++depth)
    else if (byte === 0x5d || byte === 0x7d) depth--
  }
  return most
}

export const jsonRpcAnswer: Target = {
  bytesMax: 8192,
  words: [
    ...[
      '{"jsonrpc":"2.0","result":',
      '{"jsonrpc":"2.0","error":',
      ',"id":1}',
      '"id":1',
      ',"id":2}',
    ],
    ...[
      '"result":',
      '"error":',
      'null',
      '\n',
      ' ',
      '\\"',
      '\\',
      '"jsonrpc":"2.0"',
      '[',
      ']',
      '{',
      '}',
    ],
  ],
  seeds: () => [
    text('{"jsonrpc":"2.0","result":{"a":[1,2]},"id":1}'),
    text('{"jsonrpc":"2.0","id":1,"result":"a\\"b"}'),
    text('{"jsonrpc":"2.0","error":{"code":-32000,"message":"x"},"id":1}\n'),
    text('{ "id" : 1 , "error" : null, "jsonrpc":"2.0", "result" : 7 }'),
    text('{"jsonrpc":"2.0","result":[],"jsonrpc":"2.0" , "id": 1 } '),
  ],
  run(input) {
    const answer = input.toString('latin1')
    const split = splitAnswer(answer)
    openingOf(answer.slice(0, 64))
    closingOf(answer.slice(-64))
    if (split === null) return
    ok(
      split.start >= 0 && split.start <= split.end && split.end <= answer.length,
      'within the text',
    )
    const whole = parsedOrNull(answer)
    // What is no JSON is the node's own; it must not show more than the node sent.
    if (whole === null || !isPlain(whole)) return
    // Members that follow the value go with it: to whoever parses the answer they are what they were.
    const name = split.isError ? 'error' : 'result'
    // An error of null is none, also where it follows another one.
    if (split.isError && whole.error === null) return
    const forwarded = JSON.parse(`{"${name}":${answer.slice(split.start, split.end)}}`)
    same(forwarded[name], whole[name], 'the value of the answer')
    same(whole.id, 1, 'the id of the call')
  },
}

function isPlain(value: unknown): value is { result?: unknown; error?: unknown; id?: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parsedOrNull(value: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    return null
  }
}
