// What a node answers to probes, sends and the server's own reads: nothing of it ends the server.
import { ok } from 'node:assert'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { NodeProbe } from '../../../src/upstream/node-pool/node-probe.ts'
import { callNode, UpstreamSet } from '../../../src/upstream/node-pool/upstream-set.ts'
import {
  knowsBlockhash,
  readAccount,
  readAccounts,
  readSignatureStatus,
} from '../../../src/upstream/set-reads.ts'
import { SetSender } from '../../../src/upstream/transaction-senders.ts'
import { HandClock } from '../../testkit/fake-execution.ts'
import { setSection } from '../../testkit/upstream-sections.ts'
import { type Target, text } from '../target.ts'

const key = new Uint8Array(32).fill(1)
const signature = new Uint8Array(64).fill(2)
const levels = 10_000
const deep = '['.repeat(levels) + ']'.repeat(levels)

/** Throws where it is made a text or a number. */
const textless = '{"valueOf":1,"toString":1}'

const clock = new HandClock()
let answered = ''
const set = new UpstreamSet('main', setSection([{}]), { clock, log: silentLog })
const node = set.nodes[0]!
// Reason for the cast: what a request that was answered at once shows of itself.
const request = () =>
  ({
    ...{ status: 200, startMs: 0, headMs: 0 },
    response: Promise.resolve({ ok: true, status: 200, body: answered }),
  }) as never
Object.assign(node.http!, { request })
const sender = new SetSender(set)

/** To its six questions, and to one alone. */
const probed = (...errors: string[]) =>
  `[${[
    ...['"ok"', '7', '{"context":{"slot":7},"value":{"blockhash":"a"}}', '6', '8', '"genesis"'].map(
      (result, index) => `{"jsonrpc":"2.0","result":${result},"id":${index + 1}}`,
    ),
    ...errors.map((error) => `{"error":${error},"id":1}`),
  ].join(',')}]`
const reply = (members: string) => text(`{"jsonrpc":"2.0",${members},"id":1}`)
const value = (of: string) => reply(`"result":{"context":{"slot":9},"value":${of}}`)

export const nodeReplies: Target = {
  bytesMax: 2 * levels + 1_000,
  words: [
    ...[
      '"error":',
      '"result":',
      '"code":',
      '"message":',
      '"data":',
      '"err":',
      '"id":1',
      ',"id":2}',
    ],
    ...['null', '{}', '[]', '-32005', '-32601', '-32002', textless, '"x"', '7'],
    ...['"context":', '"slot":', '"value":', '"blockhash":', '"numSlotsBehind":', '[{', '}]', deep],
  ],
  seeds: () => [
    text(probed()),
    text(probed('null', '{"code":-32005,"message":"behind","data":{"numSlotsBehind":7}}')),
    reply('"result":"signature"'),
    reply('"result":"signature","error":null'),
    reply('"error":{"code":-32002,"message":"no","data":{"err":"AlreadyProcessed"}}'),
    reply('"error":{"code":-32002,"message":"no","data":{"err":{"InstructionError":[0,7]}}}'),
    value('[{"slot":8,"err":null,"confirmationStatus":"confirmed"},null]'),
    value('false'),
    reply(`"result":{"context":{"slot":${textless}},"value":false}`),
    reply(`"error":{"code":-32002,"message":${textless},"data":7}`),
    reply(`"error":{"code":${textless}}`),
    reply(`"error":{"code":-32002,"message":"no","data":{"err":${deep}}}`),
    value(
      '{"data":["AAAA","base64"],"owner":"11111111111111111111111111111111","lamports":1,"space":3,"rentEpoch":0,"executable":false}',
    ),
    text('7'),
    text('[null]'),
  ],
  async run(input) {
    answered = input.toString()
    const probe = new NodeProbe(node, clock, set)
    // As a batch; then one by one, where the first was no list.
    for (let time = 0; time < 2; time++) await probe.probe()
    for (const slot of [node.slot(), node.shredSlot])
      ok(slot === null || Number.isSafeInteger(slot), 'a slot is a number')
    node.health.probeAnswered({ isBehind: false })
    // What it passes on is formatted for customers, and compared.
    JSON.stringify([
      await callNode(node, ''),
      await sender.send(signature),
      await sender.fates([signature]),
      await readSignatureStatus(set, signature, 0),
    ])
    const isKnown = await knowsBlockhash(set, 'a', 7)
    ok(isKnown === null || typeof isKnown === 'boolean', 'known or not')
    const [account] = await readAccounts(set, [key], 3)
    ok(!account || account.owner.length === key.length, 'an owner is a key')
    const read = await readAccount(set, key, 0)
    if (typeof read === 'object' && read?.account)
      ok(read.account.lamports >= 0n && read.account.owner.length === key.length, 'an account')
  },
}
