import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeTransactionInfo } from '../../../../src/chain/solana/geyser-decode.ts'
import { encodeAccount, encodeAccountInfo } from '../../../../src/chain/solana/geyser-encode.ts'
import {
  ReceivedBatch,
  slotUpdate,
  transactionUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

/** Buffers and arrays of bytes compare as plain text. */
const plain = (value: unknown): unknown => {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  if (Array.isArray(value)) return value.map(plain)
  return typeof value === 'bigint' ? `${value}n` : value
}

/** The update in a batch of one message. */
function receiveUpdate(message: Uint8Array, nowMs: number) {
  return new ReceivedBatch(batchFrom([message], nowMs)).update(0)
}

/** Every field that the update has under `like`'s names. */
function fieldsOf(update: SolanaUpdate, like: SolanaUpdate): Record<string, unknown> {
  // Reason for the cast: fields are read by name, whatever the kind.
  const values = update as unknown as Record<string, unknown>
  return Object.fromEntries(Object.keys(like).map((name) => [name, plain(values[name])]))
}

describe('updates received from a node', () => {
  it('have every field of the update that was sent, and its very bytes', () => {
    const chain = new SyntheticSolana({ seed: 11, transactionsPerSlot: 20 })
    const kinds = new Set<string>()
    for (let slot = 0; slot < 12; slot++)
      for (const sent of chain.next()) {
        if (sent.kind === 'block') continue
        kinds.add(sent.kind)
        const received = receiveUpdate(messageOf(sent), 0)
        expect(received).not.toBeNull()
        expect(received).not.toBe('other')
        expect(fieldsOf(received as SolanaUpdate, sent)).toEqual(fieldsOf(sent, sent))
      }
    expect([...kinds].sort()).toEqual(['account', 'blockMeta', 'entry', 'slot', 'transaction'])
  })

  it('do not pass on the bank ids of a node, wherever they are in a message', () => {
    // The id in every kind's own field, last as nodes write it, or first.
    const tags = { account: 0x20, slot: 0x28, transaction: 0x18, blockMeta: 0x50, entry: 0x38 }
    for (const sent of new SyntheticSolana({ seed: 12 }).next()) {
      if (sent.kind === 'block' || sent.kind === 'retraction') continue
      const bankId = Uint8Array.of(tags[sent.kind], 0xac, 0x82, 0x01)
      for (const body of [
        Buffer.concat([sent.body, bankId]),
        Buffer.concat([bankId, sent.body, bankId]),
      ]) {
        const received = receiveUpdate(messageOf({ ...sent, body }), 0) as SolanaUpdate
        expect(fieldsOf(received, sent)).toEqual(fieldsOf(sent, sent))
      }
    }
  })

  it('lose any number of bank ids, of any form, in one pass', () => {
    const [sent] = new SyntheticSolana({ seed: 12 }).next().filter(({ kind }) => kind === 'account')
    const { body } = sent as Extract<SolanaUpdate, { kind: 'account' }>
    const asText = Buffer.concat([Buffer.of(0x22, 0x20, 0, 30), Buffer.alloc(30)])
    const many = Buffer.concat([Buffer.alloc(100_000, Buffer.of(0x20, 1)), asText, body])
    const received = receiveUpdate(messageOf({ ...sent!, body: many } as SolanaUpdate), 0)
    expect(fieldsOf(received as SolanaUpdate, sent!)).toEqual(fieldsOf(sent!, sent!))
  })

  it('of a block are refused when a hash is no plain text: answers show it as it is', () => {
    const [sent] = new SyntheticSolana().next().filter(({ kind }) => kind === 'blockMeta')
    const { body } = sent as Extract<SolanaUpdate, { kind: 'blockMeta' }>
    for (const [field, isTaken] of [
      [Buffer.from('\x12\x02ab'), true],
      [Buffer.from('\x12\x02a"'), false],
      [Buffer.from('\x3a\x02a\n'), false],
    ] as const) {
      const changed = { ...sent!, body: Buffer.concat([body, field]) } as SolanaUpdate
      expect(receiveUpdate(messageOf(changed), 0) !== null, field.toString('hex')).toBe(isTaken)
    }
  })

  it('of a transaction are refused when its signature has not 64 bytes: tables have so many', () => {
    const content = new SyntheticSolana().transaction(0)
    const of = (...signatures: Uint8Array[]) => {
      const sent = transactionUpdate({ slot: 5, createdAtMs: 1 }, { ...content, signatures })
      return receiveUpdate(messageOf(sent), 0)
    }
    for (const length of [0, 63, 65, 128]) expect(of(new Uint8Array(length).fill(5))).toBeNull()
    expect(of(new Uint8Array(64).fill(5))).not.toBeNull()
  })

  it('are made again from their batch, with the same content', () => {
    const sent = new SyntheticSolana({ seed: 13 }).next().filter(({ kind }) => kind !== 'block')
    const batch = new ReceivedBatch(batchFrom(sent.map((update) => messageOf(update))))
    expect(batch.length).toBe(sent.length)
    for (const [position, update] of sent.entries()) {
      const received = batch.update(position) as SolanaUpdate
      expect(fieldsOf(received, update)).toEqual(fieldsOf(update, update))
      if (received.source === undefined) continue
      const again = received.source.update(received.position!) as SolanaUpdate
      expect(again).not.toBe(received)
      expect(fieldsOf(again, update)).toEqual(fieldsOf(update, update))
    }
  })

  it('contain the whole transaction for decoding', () => {
    const chain = new SyntheticSolana({ seed: 12 })
    for (const sent of chain.next()) {
      if (sent.kind !== 'transaction') continue
      const received = receiveUpdate(messageOf(sent), 0) as typeof sent
      expect(decodeTransactionInfo(received.info)).toEqual(decodeTransactionInfo(sent.info))
    }
  })

  it('have no logs when the node says that there are none', () => {
    const content = new SyntheticSolana().transaction(0)
    const meta = { ...content.meta, logMessages: null }
    const sent = transactionUpdate({ slot: 5, createdAtMs: 1 }, { ...content, meta })
    expect(receiveUpdate(messageOf(sent), 0)).toMatchObject({ logs: null })
  })

  it('are views of the batch: nothing is copied', () => {
    const [sent] = new SyntheticSolana().next().filter(({ kind }) => kind === 'account')
    const batch = new ReceivedBatch(batchFrom([messageOf(sent!)]))
    const received = batch.update(0) as Extract<SolanaUpdate, { kind: 'account' }>
    for (const view of [received.body, received.info, received.data, received.pubkey])
      expect(view.buffer).toBe(batch.bytes.buffer)
  })

  it('keep the node’s time to the microsecond, or use ours when it sends none', () => {
    const at = { slot: 5, createdAtMs: 1_700_000_000_123.456 }
    const sent = slotUpdate(at, { parent: 4, status: 1 })
    const received = receiveUpdate(messageOf(sent), 7) as SolanaUpdate
    expect(received.createdAtMs).toBeCloseTo(at.createdAtMs, 3)
    const bare = Buffer.concat([Buffer.from([0x1a, sent.body.length]), sent.body])
    expect(receiveUpdate(bare, 7)).toMatchObject({ kind: 'slot', slot: 5, createdAtMs: 7 })
  })

  it('leave out what is absent: no parent, no signature, a failed slot’s status', () => {
    const dead = slotUpdate(
      { slot: 9, createdAtMs: 1 },
      { parent: null, status: 6, deadError: 'x' },
    )
    expect(receiveUpdate(messageOf(dead), 0)).toMatchObject({ parent: null, status: 6 })
    const content = new SyntheticSolana().account(new Uint8Array(32).fill(9), null)
    const encoded = encodeAccount(encodeAccountInfo(content), { slot: 3, isStartup: true })
    const update = { kind: 'account' as const, slot: 3, createdAtMs: 1, ...content, ...encoded }
    expect(receiveUpdate(messageOf({ ...update, isStartup: true }), 0)).toMatchObject({
      isStartup: true,
      txnSignature: null,
    })
  })

  it('skip pings, pongs and kinds that were not requested', () => {
    expect(receiveUpdate(Buffer.from([0x32, 0x00]), 0)).toBe('other')
    expect(receiveUpdate(Buffer.from([0x4a, 0x02, 0x08, 0x01]), 0)).toBe('other')
    expect(receiveUpdate(Buffer.from([0xa2, 0x01, 0x00]), 0)).toBe('other')
    const unknownStatus = Buffer.from([0x1a, 0x04, 0x08, 0x01, 0x18, 0x63])
    expect(receiveUpdate(unknownStatus, 0)).toBeNull()
  })

  it('never throw, whatever the bytes', () => {
    const messages = new SyntheticSolana()
      .next()
      .filter(({ kind }) => kind !== 'block')
      .map((update) => messageOf(update))
    const touch = (bytes: Uint8Array) => {
      const received = receiveUpdate(bytes, 0)
      if (received === null || received === 'other') return
      // Reason for the cast: fields are read by name, whatever the kind.
      const values = received as unknown as Record<string, unknown>
      for (const name of ['keys', 'err', 'logs', 'tokenOwners', 'statusBody', 'data', 'info'])
        void values[name]
    }
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => void touch(bytes)))
    fc.assert(
      fc.property(
        fc.nat(messages.length - 1),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.nat(255),
        (which, where, value) => {
          const whole = messages[which]!
          const at = Math.floor(where * (whole.length - 1))
          touch(whole.subarray(0, at))
          const changed = Uint8Array.from(whole)
          changed[at] = value
          touch(changed)
        },
      ),
      { numRuns: 2_000 },
    )
  })
})
