// Protobuf: requests of subscribers and updates of nodes, beside protobufjs.
import { ok } from 'node:assert'
import { batchOf } from '../../../src/chain/solana/geyser-batch.ts'
import { decodeTransactionInfo } from '../../../src/chain/solana/geyser-decode.ts'
import { ReceivedBatch, type ReceivedUpdate } from '../../../src/chain/solana/received-batch.ts'
import {
  type TransactionEncoding,
  transactionEncodings,
  uiTransactionText,
} from '../../../src/chain/solana/ui-transaction.ts'
import { newestShapes } from '../../../src/chain/solana/version.ts'
import { transactionBytes } from '../../../src/chain/solana/wire.ts'
import {
  type KeysRequest,
  loadCodec,
  type SubscribeRequest,
} from '../../../src/streams/geyser/codec.ts'
import {
  compileFilters,
  compileKeyChanges,
  countKeys,
} from '../../../src/streams/geyser/filter-compile.ts'
import { frameOf, updateTag } from '../../../src/streams/geyser/frame.ts'
import { pingIn } from '../../../src/streams/geyser/subscriber.ts'
import { messageOf } from '../../testkit/geyser-messages.ts'
import { SyntheticSolana } from '../../testkit/synthetic-solana.ts'
import { changeMessage, fieldBytes, fieldsOf } from '../protobuf.ts'
import { same, type Target } from '../target.ts'

const codec = loadCodec()
const requestType = codec.root.lookupType('geyser.SubscribeRequest')
const updateType = codec.root.lookupType('geyser.SubscribeUpdate')
const key = '11111111111111111111111111111112'
const limits = {
  filtersMax: 3,
  accountsMax: 4,
  ownersMax: 2,
  dataSlicesMax: 2,
  cuckooBytesMax: 256,
  any: true,
  accountReject: new Set<string>(),
  ownerReject: new Set<string>(),
}
const pingField = 9

const requests: readonly object[] = [
  {
    accounts: {
      a: {
        account: [key],
        owner: [key],
        filters: [{ datasize: 165 }, { memcmp: { offset: 4, base58: '3Mc6vR' } }],
      },
      b: { filters: [{ lamports: { gt: 5 } }, { tokenAccountState: true }], diffOnly: true },
    },
    commitment: 1,
    accountsDataSlice: [{ offset: 3, length: 40 }],
  },
  { slots: { s: { filterByCommitment: true, interslotUpdates: true } }, fromSlot: 1000 },
  {
    transactions: {
      t: {
        vote: false,
        failed: true,
        accountInclude: [key],
        accountRequired: [key],
        tokenAccounts: 2,
        instructions: [{ program: key, dataPrefix: Buffer.of(1, 2, 3) }],
      },
    },
    transactionsStatus: { u: { signature: '1'.repeat(64) } },
    commitment: 2,
  },
  {
    blocks: { b: { accountInclude: [key], includeTransactions: true, includeEntries: true } },
    blocksMeta: { m: {} },
    entry: { e: {} },
  },
  { ping: { id: 7 } },
  { keys: { id: 1, changes: [{ filter: 'a', add: [Buffer.alloc(32, 1)], remove: [], list: 1 }] } },
  {
    accounts: {
      c: {
        cuckooAccountsFilter: {
          data: Buffer.alloc(64, 3),
          bucketCount: 8,
          entriesPerBucket: 4,
          fingerprintBits: 16,
        },
      },
    },
  },
]

export const geyserRequest: Target = {
  words: [key, Uint8Array.of(0x4a, 2, 8, 7), 'AQIDBA==', '3Mc6vR'],
  seeds: () => requests.map((one) => requestType.encode(requestType.fromObject(one)).finish()),
  change: (input, chance) => changeMessage(input, chance),
  run(input) {
    const ping = pingIn(input)
    const fields = fieldsOf(input)
    const pings = fields?.filter(({ number, wire }) => number === pingField && wire === 2) ?? []
    same(ping, fields === null ? null : (pings.at(-1)?.value ?? null), 'the ping')
    const request = codec.decode<SubscribeRequest>('geyser.SubscribeRequest', input)
    if (request === null) return
    ok(countKeys(request) >= 0, 'keys are counted')
    const compiled = compileFilters(request, limits)
    const filters = compiled.ok ? compiled.value : null
    if (!compiled.ok) ok(compiled.refusal.message.length > 5, 'a refusal has a reason')
    const keys: KeysRequest | null = request.keys ?? null
    if (filters !== null && keys !== null) compileKeyChanges(keys, filters, limits)
  },
}

/** Fields of `bank_id` in the bodies of updates, by the field of the update. */
const bankIds: Readonly<Partial<Record<number, number>>> = { 2: 4, 3: 5, 4: 3, 7: 10, 8: 7 }

export const geyserUpdate: Target = {
  bytesMax: 32 * 1024,
  words: [
    Uint8Array.of(0x20, 1),
    Uint8Array.of(0x28, 1),
    Uint8Array.of(0x18, 1),
    new Uint8Array(32),
  ],
  seeds() {
    const updates = new SyntheticSolana({ seed: 5, transactionsPerSlot: 3, dataBytes: 40 }).next()
    const messages = updates.filter(({ kind }) => kind !== 'block').map((one) => messageOf(one))
    const withBank = messages.map((message) => {
      const fields = fieldsOf(message)!
      return Buffer.concat(
        fields.map(({ number, value, written }) => {
          const bank = bankIds[number]
          if (bank === undefined || !(value instanceof Uint8Array)) return written
          return fieldBytes(number, Buffer.concat([fieldBytes(bank, 300n), value]))
        }),
      )
    })
    return [...messages, ...withBank]
  },
  change: (input, chance) => changeMessage(input, chance),
  run(input) {
    const sent = Buffer.from(input)
    const update = new ReceivedBatch(batchOf(input, [0, input.length], 5)).update(0)
    if (update === null || update === 'other') return
    same(update.body, bodyOf(sent), 'the body without a bank id')
    for (const name of Object.keys(all[update.kind])) void read(update, name)
    const frame = frameOf(updateTag[update.kind], update.body, update.createdAtMs)
    ok(frame.length < input.length + 100, 'a frame is about as long as the message')
    if (update.kind === 'transaction') showTransaction(update.info, ['base64', 'jsonParsed'])
    if (update.kind === 'blockMeta') JSON.parse(`"${update.blockhash}${update.parentBlockhash}"`)
  },
  compare(input) {
    const message = decodedUpdate(input)
    const update = new ReceivedBatch(batchOf(Buffer.from(input), [0, input.length], 5)).update(0)
    // What protobufjs writes itself: others may be read in more than one way.
    if (message === null || update === null || update === 'other') return
    const body = bodyFields(message)
    if (body === undefined) return
    if (BigInt(String(body.slot ?? 0)) < 2n ** 53n)
      same(update.slot, Number(body.slot ?? 0), 'slot')
    if (update.kind === 'transaction') showTransaction(update.info, transactionEncodings)
    if (update.kind !== 'account') return
    const info = (body.account ?? {}) as Record<string, unknown>
    const none = Buffer.alloc(0)
    same(update.pubkey, info.pubkey ?? none, 'pubkey')
    same(update.owner, info.owner ?? none, 'owner')
    same(update.data, info.data ?? none, 'data')
    same(String(update.lamports), String(info.lamports ?? 0), 'lamports')
    same(String(update.writeVersion), String(info.writeVersion ?? 0), 'write version')
  },
}

const common = { slot: 1, createdAtMs: 1, body: 1 }
const all: Readonly<Record<ReceivedUpdate['kind'], object>> = {
  account: {
    ...common,
    ...{ pubkey: 1, owner: 1, data: 1, txnSignature: 1, executable: 1, lamports: 1, rentEpoch: 1 },
    ...{ writeVersion: 1, isStartup: 1, info: 1 },
  },
  transaction: {
    ...common,
    ...{ signature: 1, isVote: 1, index: 1, keys: 1, err: 1, logs: 1, tokenOwners: 1, info: 1 },
    ...{ changedTokenOwners: 1, statusBody: 1 },
  },
  entry: { ...common, index: 1 },
  slot: { ...common, parent: 1, status: 1 },
  blockMeta: { ...common, blockhash: 1, parentSlot: 1, rewards: 1, blockTime: 1, blockHeight: 1 },
}

function read(update: ReceivedUpdate, name: string): unknown {
  // Reason for the cast: fields are read by name, whatever the kind.
  return (update as unknown as Record<string, unknown>)[name]
}

function showTransaction(info: Uint8Array, encodings: readonly TransactionEncoding[]): void {
  const content = decodeTransactionInfo(info)
  transactionBytes(content)
  const view = { details: 'full', showRewards: true, versionMax: 1, isSorted: true } as const
  for (const encoding of encodings) {
    const text = uiTransactionText(content, { ...view, encoding }, newestShapes)
    ok(text.length < 64 * info.length + 4_096, 'a text is bounded by its message')
    if (text.length < 32_768) JSON.parse(text)
  }
}

/** The last field that may be the body of an update, without the bank id. */
function bodyOf(message: Buffer): Buffer | null {
  const last = fieldsOf(message)?.findLast(({ number }) => number !== 1 && number !== 11)
  if (last === undefined) return null
  // A number in place of a message is an empty one.
  if (typeof last.value === 'bigint') return Buffer.alloc(0)
  const bank = bankIds[last.number]
  const fields = fieldsOf(last.value)
  return Buffer.concat(
    (fields ?? []).filter(({ number }) => number !== bank).map(({ written }) => written),
  )
}

function decodedUpdate(input: Buffer): Record<string, unknown> | null {
  try {
    const message = updateType.decode(input)
    const isOwn = Buffer.from(updateType.encode(message).finish()).equals(input)
    // Reason for the cast: fields are read by name.
    return isOwn ? (message as unknown as Record<string, unknown>) : null
  } catch {
    return null
  }
}

/** The fields of the update itself. */
function bodyFields(message: Record<string, unknown>): Record<string, unknown> | undefined {
  return message[String(message.updateOneof)] as Record<string, unknown> | undefined
}
