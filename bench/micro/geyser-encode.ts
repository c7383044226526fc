// What it costs to put a transaction update of 3 kB on the wire for one more subscriber.
// Thread: main of the bench process.

import { encodeTransaction } from '../../src/chain/solana/geyser-transaction.ts'
import { transactionUpdate } from '../../src/chain/solana/update-build.ts'
import { loadCodec } from '../../src/streams/geyser/codec.ts'
import {
  createdAtSuffix,
  FrameBatch,
  namePrefix,
  updateTag,
} from '../../src/streams/geyser/frame.ts'
import { SlabPool } from '../../src/streams/geyser/slab.ts'
import { SyntheticSolana } from '../../test/testkit/synthetic-solana.ts'
import type { Bench } from '../lib/bench.ts'
import { singleFunction } from '../lib/single-function.ts'

const logBytes = 2_000
const content = new SyntheticSolana().transaction(0, logBytes)
const moment = { slot: 250_000_000, createdAtMs: 1_700_000_000_000.25 }
const update = transactionUpdate(moment, content)
const codec = loadCodec()
const type = codec.root.lookupType('geyser.SubscribeUpdate')
const suffix = createdAtSuffix(moment.createdAtMs)
const prefix = namePrefix('client')
const spliced = spliceOnce()
// The object that a server without an encoder of its own would keep and encode for each client.
const message = type.decode(spliced.subarray(5))
const batch = new FrameBatch(new SlabPool())

const plain = 'protobufjs, whole message'
const splice = 'splice of the shared body'

export const bench: Bench = {
  name: 'geyser-encode',
  question: 'What does a 3 kB transaction update cost for one more subscriber?',
  cores: 1,
  baseline: singleFunction({
    name: plain,
    call: () => type.encode(message).finish(),
    evidence: () => ({ bytes: Buffer.from(type.encode(message).finish()) }),
  }),
  candidates: [
    singleFunction({
      name: splice,
      call() {
        batch.append(updateTag.transaction, prefix, update.body, suffix)
        if (batch.bytes < 64 * 1024) return
        for (const { slab } of batch.take()) slab?.release()
      },
      evidence: () => ({ bytes: spliceOnce().subarray(5) }),
    }),
    singleFunction({
      name: 'the body, by hand, once per update',
      call: () => encodeTransaction(moment.slot, content),
    }),
  ],
  goals: [{ contender: splice, to: plain, figure: 'opsPerSecond', atLeast: 2 }],
  verify({ evidence }) {
    const bytes = evidence?.bytes as Buffer | undefined
    if (bytes === undefined) return undefined
    if (bytes.length < 2_500) return `${bytes.length} bytes are no 3 kB`
    return bytes.equals(spliced.subarray(5)) ? undefined : 'the bytes differ'
  },
}

function spliceOnce(): Buffer {
  const once = new FrameBatch(new SlabPool())
  once.append(updateTag.transaction, prefix, update.body, suffix)
  return Buffer.concat(once.take().map(({ bytes }) => bytes))
}
