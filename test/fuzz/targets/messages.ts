// Messages of WebSocket clients, and frames of the shared event log beside JSON.parse and msgpackr.
import { ok } from 'node:assert'
import { unpack } from 'msgpackr'
import { parseRequest } from '../../../src/base/jsonrpc/parse.ts'
import { parseConnect, parseMessage } from '../../../src/products/metrics/handle.ts'
import { frameKinds, jsonToMsgpack } from '../../../src/streams/log/encoded.ts'
import { decodeFrame, encodeFrame, isPayload } from '../../../src/streams/log/shared-events.ts'
import { cursorText, readCursor } from '../../../src/streams/pubsub/cursor.ts'
import {
  hasMoreIn,
  paramsText,
  readId,
  readKeysChange,
  readParams,
  resumeIn,
  topics,
} from '../../../src/streams/pubsub/read-params.ts'
import { same, type Target, text } from '../target.ts'

const key = '11111111111111111111111111111112'
const call = (method: string, params: string) =>
  text(`{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`)
const cursor = cursorText(
  { kind: 'account', commitment: 1 },
  { top: 300, bits: 7, partials: new Map([[299, { replaced: 0, parent: 298, place: 4 }]]) },
)

/** A call of PubSub, a message of the metrics stream, or a cursor. */
export const socketMessage: Target = {
  words: [
    ...topics.map((topic) => `"${topic}Subscribe"`),
    ...[
      '"commitment":"confirmed"',
      '"encoding":"jsonParsed"',
      '"dataSlice":{"offset":0,"length":4}',
    ],
    ...[
      '"filters":[{"dataSize":165}]',
      '{"memcmp":{"offset":0,"bytes":"1"}}',
      '"mentions"',
      '"all"',
    ],
    ...[
      '"mentionsAccountOrProgram"',
      '"accountInclude"',
      '"accountRequired"',
      '"vote":true',
      'null',
    ],
    ...['"transactionDetails":"full"', '"maxSupportedTransactionVersion":0', '"showRewards":true'],
    ...[
      `"${key}"`,
      `"resume":"${cursor}"`,
      '"subscribe"',
      '"events"',
      '"TPS"',
      '"keys"',
      '"__proto__"',
    ],
    ...[
      '"encoding":"base64+zstd"',
      '"minContextSlot":1',
      '"accountStates":true',
      '"blockTime":true',
    ],
  ],
  seeds: () => [
    call('accountSubscribe', `["${key}",{"encoding":"base64","commitment":"finalized"}]`),
    call(
      'programSubscribe',
      `["${key}",{"filters":[{"dataSize":1},{"memcmp":{"offset":0,"bytes":"2"}}]}]`,
    ),
    call('logsSubscribe', `[{"mentions":["${key}"]},{"commitment":"processed"}]`),
    call('signatureSubscribe', `["${'1'.repeat(64)}",{"enableReceivedNotification":true}]`),
    call('blockSubscribe', `[{"mentionsAccountOrProgram":"${key}"},{"encoding":"json"}]`),
    call(
      'transactionSubscribe',
      `[{"accountInclude":["${key}"],"vote":false},{"encoding":"json"}]`,
    ),
    call('tokenOwnerSubscribe', `["${key}"]`),
    call('slotSubscribe', `[{"resume":"${cursor}"}]`),
    call('transactionUpdate', `[1,{"accountInclude":{"add":["${key}"]}}]`),
    call('slotUnsubscribe', '[7]'),
    text('{"subscribe":["TPS","Lifecycle"]}'),
    text('events=TPS&resume_from=7&run=x'),
    text(cursor),
  ],
  run(input) {
    const query = new URLSearchParams(input.toString('latin1'))
    parseConnect((name) => query.get(name))
    const said = input.toString('utf8')
    const asked = parseMessage(said)
    if (!asked.ok) ok(asked.refusal.message.length > 5, 'a refusal has a reason')
    const sent = readCursor(said)
    if (typeof sent !== 'string') {
      const { topic: kind, commitment } = sent
      same(readCursor(cursorText({ kind, commitment }, sent)), sent, 'a cursor and back')
    }
    for (const { method, params } of callsIn(input)) {
      for (const topic of topics) {
        const wanted = readParams(topic, params)
        if ('code' in wanted) ok(wanted.message !== '', 'an error has a text')
        else ok(paramsText(wanted).length < 4 * input.length + 1_024, 'the key of a subscription')
        resumeIn(topic, params)
      }
      readId(params)
      readKeysChange(params)
      hasMoreIn(params)
      ok(method !== '' || params === undefined || params !== null, 'a call')
    }
  },
}

function callsIn(input: Buffer) {
  const { items } = parseRequest(input, 4)
  return items.flatMap((item) => (item.method === null ? [] : [item]))
}

const frame = (kind: string, payload: string) =>
  text(`{"kind":"${kind}","facts":{"block":1,"at":"5"}}\n${payload}`)

export const eventFrame: Target = {
  words: [
    ...frameKinds.map((kind) => `{"kind":"${kind}"}\n`),
    '"from":1',
    '"to":2',
    '-0',
    '1e5',
    '\\u00e9',
  ],
  seeds: () => [
    frame('TPS', '17'),
    frame('Gap', '{"from":1,"to":18446744073709551615,"at_ms":1.5}'),
    frame('TopAccesses', '{"account":[{"count":1,"error":0,"key":"é"}],"storage":[]}'),
    frame(
      'Lifecycle',
      '{"block_hash":"x","block_number":-1,"to_stage":"\\u0041","block_age_ms":-0}',
    ),
    text('[1,-33,255,65536,4294967296,-9007199254740993,"a\\n",{"b":null},[[]],true,false,1e300]'),
  ],
  run(input) {
    const found = decodeFrame(input, 5)
    if (found !== null) {
      const again = decodeFrame(encodeFrame(found), 5)
      same(again, found, 'a frame and back')
    }
    for (const kind of frameKinds) isPayload(kind, input)
    const value = parsed(input)
    if (value === undefined) return
    // A number without an end is none in msgpack; whoever checks a payload refuses it.
    if (!hasEnd(input.toString())) return
    const packed = jsonToMsgpack(input)
    same(widened(unpack(packed)), widened(value), 'as msgpackr reads it')
  },
}

function parsed(input: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(input))
  } catch {
    return undefined
  }
}

/** Of every number, also of one whose key comes again. */
function hasEnd(json: string): boolean {
  const numbers = json.replace(/"(?:\\.|[^"\\])*"/g, '').match(/-?\d[\d.eE+-]*/g) ?? []
  return numbers.every((number) => Number.isFinite(Number(number)))
}

/** msgpack has whole integers of 64 bits, and a key may come twice. */
function widened(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value)
  if (Array.isArray(value)) return value.map(widened)
  if (typeof value !== 'object' || value === null) return value
  return Object.entries(value)
    .map(([name, member]) => [name, widened(member)])
    .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1))
}
