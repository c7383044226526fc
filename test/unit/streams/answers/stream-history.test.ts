import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { decodeTransactionInfo } from '../../../../src/chain/solana/geyser-decode.ts'
import { slotUpdate, transactionUpdate } from '../../../../src/chain/solana/received-batch.ts'
import { decodeTransactionError } from '../../../../src/chain/solana/transaction-error.ts'
import { uiTransactionText } from '../../../../src/chain/solana/ui-transaction.ts'
import {
  type BlockUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../../../src/chain/solana/updates.ts'
import { oldestShapes } from '../../../../src/chain/solana/version.ts'
import { StreamAnswers } from '../../../../src/streams/answers/stream-answers.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { streamDeps } from '../../../testkit/stream-chain.ts'
import { type SyntheticOptions, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const confirmed = { commitment: 'confirmed', maxSupportedTransactionVersion: 0 }
const finalized = { ...confirmed, commitment: 'finalized' }

function stage(options: SyntheticOptions = {}, deps: Partial<typeof streamDeps> = {}) {
  const solana = new SyntheticSolana(options)
  const hub = openSolanaHub()
  const answers = new StreamAnswers(hub, { ...streamDeps, ...deps })
  const blocks: BlockUpdate[] = []
  /** Publishes whole slots, without the updates that `isLost` picks. */
  const grow = (slots: number, isLost: (update: SolanaUpdate) => boolean = () => false) => {
    for (let count = 0; count < slots; count++)
      for (const update of solana.next()) {
        if (update.kind === 'block') blocks.push(update)
        if (!isLost(update)) publishUpdate(hub, update)
      }
  }
  const ask = (method: string, ...params: unknown[]): string | null => {
    const call = { method, params, paramsText: JSON.stringify(params), id: '1' }
    const found = answers.answer(call)
    return found?.answer.kind === 'text' ? found.answer.text : null
  }
  return { answers, hub, blocks, grow, ask }
}

const nameOf = (block: BlockUpdate, index = 0) => encodeBase58(block.transactions[index]!.signature)

describe('transactions from the stream', () => {
  it.each([
    [400, 300],
    [200, 600],
  ])('are known for two minutes of slots of %i ms', (slotMs, slots) => {
    const deps = { blocks: { bytesMax: 100_000_000 } }
    const { hub, blocks, grow, ask } = stage({ transactionsPerSlot: 1 }, deps)
    for (let slot = 0; slot < 20; slot++) hub.slotTime.observe(slot, slot * slotMs)
    grow(slots + 3)
    // The last one is not confirmed.
    expect(ask('getTransaction', nameOf(blocks[0]!), confirmed)).toBeNull()
    expect(ask('getTransaction', nameOf(blocks[1]!), confirmed)).not.toBeNull()
  })

  it('are shown at the commitment that their block has reached', () => {
    const { ask, blocks, grow } = stage()
    grow(6)
    const [first, , , , fourth, last] = blocks
    const text = ask('getTransaction', nameOf(first!, 2), finalized)!
    const { meta, transaction, version, ...where } = JSON.parse(text)
    const shown = { slot: first!.slot, blockTime: first!.meta.blockTime, transactionIndex: 2 }
    expect(where).toEqual(shown)
    const content = decodeTransactionInfo(first!.transactions[2]!.info)
    const view = { encoding: 'json', details: 'full' } as const
    const rest = { showRewards: true, versionMax: 0, isSorted: true }
    const expected = JSON.parse(uiTransactionText(content, { ...view, ...rest }, oldestShapes))
    expect({ meta, transaction, version }).toEqual(expected)
    // Members are sorted by name, as a validator writes them.
    expect(Object.keys(JSON.parse(text))).toEqual(Object.keys(JSON.parse(text)).sort())
    expect(Object.keys(meta)).toEqual(Object.keys(meta).sort())
    expect(ask('getTransaction', nameOf(fourth!), confirmed)).not.toBeNull()
    expect(ask('getTransaction', nameOf(fourth!), finalized)).toBeNull()
    expect(ask('getTransaction', nameOf(last!), confirmed)).toBeNull()
    expect(ask('getTransaction', encodeBase58(new Uint8Array(64).fill(9)), confirmed)).toBeNull()
  })

  it('have a status once they are finalized', () => {
    const { ask, blocks, grow } = stage()
    grow(6)
    const [first, , third, , , last] = blocks
    const names = first!.transactions.map((_, index) => nameOf(first!, index))
    const { context, value } = JSON.parse(ask('getSignatureStatuses', names)!)
    expect(context).toEqual({ apiVersion: '4.0.0', slot: last!.slot })
    const errs = first!.transactions.map(({ err }) => (err ? decodeTransactionError(err) : null))
    expect(errs.some((err) => err !== null)).toBe(true)
    expect(value).toEqual(
      errs.map((err) => ({
        confirmationStatus: 'finalized',
        confirmations: null,
        err,
        slot: first!.slot,
        status: err === null ? { Ok: null } : { Err: err },
      })),
    )
    // How many votes are on the others, and which signatures exist at all, only a node knows.
    expect(ask('getSignatureStatuses', [nameOf(third!)])).toBeNull()
    expect(ask('getSignatureStatuses', [names[0], nameOf(last!)])).toBeNull()
    expect(ask('getSignatureStatuses', [encodeBase58(new Uint8Array(64).fill(9))])).toBeNull()
    grow(260)
    expect(ask('getSignatureStatuses', [nameOf(first!)])).toBeNull()
    expect(ask('getSignatureStatuses', [nameOf(blocks[20]!)])).not.toBeNull()
  })

  it('of a bank that was replaced have no status, where a node reports them as finalized', () => {
    const { ask, hub } = stage()
    const sink = new SolanaUpstream(hub, { log: silentLog })
    const send = (updates: readonly SolanaUpdate[]) => {
      for (const update of updates)
        if (update.kind !== 'block') sink.batch(batchFrom([messageOf(update)]))
    }
    const statusOf = (signature: Uint8Array) => {
      const params = [[encodeBase58(signature)], { searchTransactionHistory: true }]
      const text = ask('getSignatureStatuses', ...params)
      return text === null ? 'a node answers' : JSON.parse(text).value[0]
    }
    const solana = new SyntheticSolana({ finalizedAfter: 1, transactionsPerSlot: 2 })
    const other = new SyntheticSolana({ seed: 9 })
    const at = (slot: number) => ({ slot, createdAtMs: 0 })
    const voids = [0, 1].map((index) => transactionUpdate(at(1_002), other.transaction(index)))
    const [lost, moved] = voids.map(({ signature }) => signature) as [Uint8Array, Uint8Array]
    sink.opened(1_000)
    send([...solana.next(), ...solana.next()])
    const created = { parent: 1_000, status: slotStatus.createdBank }
    send([slotUpdate(at(1_002), created), ...voids])
    expect(statusOf(lost)).toBe('a node answers')
    send(solana.next())
    expect([statusOf(lost), statusOf(moved)]).toEqual([null, null])
    // One of them lands in the next slot.
    const next = solana.next().map((update) => {
      if (update.kind !== 'transaction' || update.index !== 0) return update
      return transactionUpdate(at(update.slot), { ...other.transaction(0), signatures: [moved] })
    })
    send(next)
    expect([statusOf(lost), statusOf(moved)]).toEqual([null, 'a node answers'])
    send(solana.next())
    expect(statusOf(moved)).toMatchObject({ slot: 1_003, confirmationStatus: 'finalized' })
    expect(JSON.parse(ask('getTransaction', encodeBase58(moved), confirmed)!).slot).toBe(1_003)
    expect(statusOf(new Uint8Array(64).fill(9))).toBe('a node answers')
    for (let slots = 0; slots < 300; slots++) send(solana.next())
    expect(statusOf(lost)).toBe('a node answers')
  })

  it('are not shown from a block that is not whole, or of a node of an unknown version', () => {
    const { ask, blocks, grow } = stage()
    let isFirst = true
    grow(1, ({ kind }) => kind === 'block')
    grow(1, ({ kind }) => {
      const isLost = isFirst && kind === 'transaction'
      if (isLost) isFirst = false
      return isLost
    })
    grow(3)
    expect(ask('getTransaction', nameOf(blocks[0]!, 1), confirmed)).toBeNull()
    expect(ask('getTransaction', nameOf(blocks[1]!, 1), confirmed)).toBeNull()
    expect(ask('getBlock', blocks[1]!.slot, confirmed)).toBeNull()
    expect(ask('getTransaction', nameOf(blocks[2]!, 1), confirmed)).not.toBeNull()
    for (const [version, isShown] of [
      ['3.1.8', false],
      ['0.505.20216', false],
      ['', false],
      ['4.0.3', true],
      ['4.3.1', true],
      ['5.0.0', true],
    ] as const) {
      const other = stage({}, { nodeVersion: () => version })
      other.grow(3)
      const [block] = other.blocks
      const given = [
        other.ask('getTransaction', nameOf(block!), confirmed),
        other.ask('getBlock', block!.slot, confirmed),
      ]
      expect([version, ...given.map((text) => text !== null)]).toEqual([version, isShown, isShown])
    }
  })

  it('leave memory with their bytes, the oldest first, before their signatures do', () => {
    const { answers, ask, blocks, grow } = stage({}, { blocks: { bytesMax: 100_000 } })
    grow(40)
    expect(answers.blocks.bytes).toBeLessThanOrEqual(100_000)
    expect(ask('getTransaction', nameOf(blocks[37]!), confirmed)).not.toBeNull()
    expect(ask('getTransaction', nameOf(blocks[0]!), confirmed)).toBeNull()
    expect(ask('getSignatureStatuses', [nameOf(blocks[0]!)])).not.toBeNull()
    grow(260)
    expect(answers.blocks.bytes).toBeLessThanOrEqual(100_000)
    expect(ask('getSignatureStatuses', [nameOf(blocks[60]!)])).toBeNull()
    const none = stage({}, { blocks: { bytesMax: 0 } })
    none.grow(5)
    expect([none.answers.blocks.bytes, none.ask('getBlock', 1000, confirmed)]).toEqual([0, null])
  })
})

describe('blocks from the stream', () => {
  it('are shown with the details that a caller asks for', () => {
    const { ask, blocks, grow } = stage()
    grow(6)
    const block = blocks[0]!
    const shown = (config: object) => JSON.parse(ask('getBlock', block.slot, config)!)
    const { blockhash, blockHeight, blockTime, parentSlot, parentBlockhash } = block.meta
    const head = { blockhash, blockHeight, blockTime, parentSlot }
    const whole = { ...head, previousBlockhash: parentBlockhash, rewards: [] }
    expect(shown({ ...finalized, transactionDetails: 'none' })).toEqual(whole)
    const signatures = block.transactions.map((_, index) => nameOf(block, index))
    const { rewards, ...unpaid } = whole
    expect(shown({ ...finalized, transactionDetails: 'signatures', rewards: false })).toEqual({
      ...unpaid,
      signatures,
    })
    for (const encoding of ['json', 'jsonParsed', 'base58', 'base64']) {
      const { transactions } = shown({ ...confirmed, encoding })
      const details = { details: 'full', showRewards: true, versionMax: 0 } as const
      const view = { ...details, encoding: encoding as 'json', isSorted: true }
      const texts = block.transactions.map(({ info }) =>
        JSON.parse(uiTransactionText(decodeTransactionInfo(info), view, oldestShapes)),
      )
      expect(transactions).toEqual(texts)
    }
    expect(ask('getBlock', block.slot, { ...confirmed, commitment: 'processed' })).toBeNull()
    expect(ask('getBlock', blocks[4]!.slot, finalized)).toBeNull()
    expect(ask('getBlock', block.slot - 1, confirmed)).toBeNull()
    expect(ask('getBlock', block.slot, { commitment: 'confirmed' })).toBeNull()
  })

  it('are left to a node when they are long, since its text is passed on faster', () => {
    const { ask, blocks, grow } = stage({ transactionsPerSlot: 17 })
    grow(6)
    const { slot } = blocks[0]!
    expect(ask('getBlock', slot, confirmed)).toBeNull()
    expect(ask('getBlock', slot, { ...confirmed, transactionDetails: 'signatures' })).toContain(
      nameOf(blocks[0]!, 16),
    )
    expect(ask('getTransaction', nameOf(blocks[0]!, 16), confirmed)).not.toBeNull()
  })
})

describe('fees from the stream', () => {
  const slotsOf = (text: string | null): number[] =>
    (JSON.parse(text ?? '[]') as { slot: number }[]).map(({ slot }) => slot)
  const method = 'getRecentPrioritizationFees'

  it("are a node's until 150 blocks are known, then those of the last 150", () => {
    const { ask, blocks, grow } = stage()
    grow(200)
    expect(ask(method)).toBeNull()
    grow(149)
    expect(ask(method)).toBeNull()
    grow(1)
    // The newest block is not confirmed.
    const known = blocks.slice(-151, -1).map(({ slot }) => slot)
    expect(slotsOf(ask(method))).toEqual(known)
    expect(slotsOf(ask(method, []))).toEqual(known)
    grow(1)
    expect(slotsOf(ask(method))).toEqual(blocks.slice(-151, -1).map(({ slot }) => slot))
  })

  it('are forgotten when a block or a transaction was lost', () => {
    for (const kind of ['block', 'transaction']) {
      const { ask, grow } = stage()
      ask(method)
      grow(152)
      expect(ask(method)).not.toBeNull()
      let isFirst = true
      grow(1, (update) => {
        const isLost = isFirst && update.kind === kind
        if (isLost) isFirst = false
        return isLost
      })
      grow(1)
      expect([kind, ask(method)]).toEqual([kind, null])
      grow(149)
      expect([kind, ask(method)]).toEqual([kind, null])
      grow(1)
      expect(ask(method)).not.toBeNull()
    }
  })

  it("are a node's where its version is unknown, and begin anew where its rates differ", () => {
    let version = '3.1.8'
    const { ask, grow } = stage({}, { nodeVersion: () => version })
    ask(method)
    grow(155)
    expect(ask(method)).toBeNull()
    version = '4.0.3'
    ask(method)
    grow(155)
    expect(ask(method)).not.toBeNull()
    version = '4.1.0'
    expect(ask(method)).toBeNull()
    grow(155)
    expect(ask(method)).not.toBeNull()
    version = '4.3.0'
    expect(ask(method)).not.toBeNull()
  })
})
