// Subscriptions as a validator's clients know them, on a chain that a test moves by hand.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { encodeBase58, keyOf } from '../../src/chain/solana/base58.ts'
import { decodeTransactionInfo } from '../../src/chain/solana/geyser-decode.ts'
import { errText } from '../../src/chain/solana/ui-transaction.ts'
import type {
  AccountUpdate,
  BlockUpdate,
  TransactionUpdate,
} from '../../src/chain/solana/updates.ts'
import { type Client, SubscriptionStage } from '../testkit/subscription-stage.ts'
import { until } from '../testkit/until.ts'

let stage: SubscriptionStage
let client: Client

beforeAll(async () => {
  stage = new SubscriptionStage({ accounts: 12 }, { three: { subscriptionsPerConnection: 3 } })
  await stage.open()
  client = await stage.connect()
})

afterAll(() => stage.stop())

const ofKind = <K extends string>(updates: readonly { kind: string }[], kind: K) =>
  updates.filter((update) => update.kind === kind) as unknown as (K extends 'account'
    ? AccountUpdate
    : K extends 'transaction'
      ? TransactionUpdate
      : BlockUpdate)[]

interface Shown {
  readonly transaction: { readonly signatures: readonly string[] }
}

const text = (bytes: Uint8Array) => encodeBase58(bytes)
const same = (a: Uint8Array, b: Uint8Array) => keyOf(a) === keyOf(b)

/** The last write of each account in the updates of one slot, in the order of these writes. */
function lastWrites(updates: readonly { kind: string }[]): AccountUpdate[] {
  const writes = ofKind(updates, 'account')
  return writes.filter(
    (one, at) => !writes.slice(at + 1).some((later) => same(later.pubkey, one.pubkey)),
  )
}

/** Tells slots until something is there that the test can use. */
function seek<T>(find: (updates: ReturnType<SubscriptionStage['step']>) => T | undefined): T {
  for (let tries = 0; tries < 200; tries++) {
    const found = find(stage.step())
    if (found !== undefined) return found
  }
  throw new Error('the synthetic chain never did it')
}

describe('accountSubscribe', () => {
  it('notifies once per slot with the last write, at each commitment, in order', async () => {
    const key = stage.synthetic.keys[0]!
    const ids = await Promise.all(
      ['processed', 'confirmed', 'finalized'].map((commitment) =>
        client.subscribe('account', text(key), { commitment, encoding: 'base64' }),
      ),
    )
    expect(new Set(ids).size).toBe(3)
    const written: AccountUpdate[] = []
    for (let slot = 0; slot < 12; slot++)
      written.push(...lastWrites(stage.step()).filter(({ pubkey }) => same(pubkey, key)))
    for (let slot = 0; slot < 5; slot++) stage.step()
    const expected = written.map(({ slot, lamports, data, owner }) => ({
      context: { slot },
      value: {
        lamports: Number(lamports),
        data: [Buffer.from(data).toString('base64'), 'base64'],
        owner: text(owner),
        executable: false,
        // The largest u64: a parsed number has lost its last digits.
        rentEpoch: 18446744073709552000,
        space: data.length,
      },
    }))
    for (const id of ids) {
      const told = await client.upTo(id, expected.length)
      expect(told.slice(0, expected.length)).toEqual(expected)
    }
    for (const id of ids) expect((await client.ask('accountUnsubscribe', [id])).result).toBe(true)
  })

  it('gives equal subscriptions the same id, one of each connection', async () => {
    const other = await stage.connect()
    const params = [text(stage.synthetic.keys[1]!), { encoding: 'base64', commitment: 'processed' }]
    const id = await client.subscribe('account', ...params)
    expect(await other.subscribe('account', ...params)).toBe(id)
    expect(await client.subscribe('account', ...params)).toBe(id)
    expect(await client.subscribe('account', params[0])).not.toBe(id)
    seek((updates) =>
      ofKind(updates, 'account').find(({ pubkey }) => same(pubkey, stage.synthetic.keys[1]!)),
    )
    await Promise.all([other.upTo(id, 1), client.upTo(id, 1)])
    const raw = client.of(id).length
    expect(raw).toBe(other.of(id).length)
    expect((await client.ask('accountUnsubscribe', [id])).result).toBe(true)
    expect(await client.ask('accountUnsubscribe', [id])).toMatchObject({
      error: { code: -32602, message: 'Invalid subscription id.' },
    })
    expect((await other.ask('accountUnsubscribe', [id])).result).toBe(true)
  })
})

describe('programSubscribe', () => {
  it('notifies of the accounts of an owner that match its filters', async () => {
    const owner = stage.synthetic.owners[2]!
    const all = await client.subscribe('program', text(owner), {
      commitment: 'processed',
      encoding: 'base64',
      dataSlice: { offset: 0, length: 0 },
    })
    const sized = await client.subscribe('program', text(owner), {
      commitment: 'processed',
      encoding: 'base64',
      filters: [{ dataSize: 165 }],
    })
    const written: AccountUpdate[] = []
    for (let slot = 0; slot < 20; slot++)
      written.push(...lastWrites(stage.step()).filter((one) => same(one.owner, owner)))
    const tokens = written.filter(({ data }) => data.length === 165)
    expect(tokens.length).toBeGreaterThan(0)
    const told = await client.upTo(all, written.length)
    expect(told.map(({ value }) => value.pubkey)).toEqual(written.map((one) => text(one.pubkey)))
    // As with agave: a slice is part of the subscription's identity and is not applied.
    for (const [at, { value }] of told.entries())
      expect(value.account.data).toEqual([
        Buffer.from(written[at]!.data).toString('base64'),
        'base64',
      ])
    expect((await client.upTo(sized, tokens.length)).length).toBe(tokens.length)
    await client.ask('programUnsubscribe', [all])
    await client.ask('programUnsubscribe', [sized])
  })
})

describe('logsSubscribe', () => {
  it('notifies of all without votes, all with votes, or those that mention a key', async () => {
    const key = stage.synthetic.keys[3]!
    const commitment = 'processed'
    const all = await client.subscribe('logs', 'all', { commitment })
    const votes = await client.subscribe('logs', 'allWithVotes', { commitment })
    const mentions = await client.subscribe('logs', { mentions: [text(key)] }, { commitment })
    const seen: TransactionUpdate[] = []
    for (let slot = 0; slot < 10; slot++) seen.push(...ofKind(stage.step(), 'transaction'))
    const signatures = (list: TransactionUpdate[]) => list.map((one) => text(one.signature))
    const told = async (id: number, list: TransactionUpdate[]) => {
      expect((await client.upTo(id, list.length)).map(({ value }) => value.signature)).toEqual(
        signatures(list),
      )
    }
    await told(votes, seen)
    await told(
      all,
      seen.filter(({ isVote }) => !isVote),
    )
    await told(
      mentions,
      seen.filter(({ keys }) => keys.some((one) => same(one, key))),
    )
    const failed = seen.findIndex(({ err }) => err !== null)
    expect(client.of(votes)[failed].value).toMatchObject({
      err: { InstructionError: [0, { Custom: 7 }] },
      logs: ['Program log: Hello', 'x'.repeat(40), ''],
    })
    for (const id of [all, votes, mentions]) await client.ask('logsUnsubscribe', [id])
  })
})

describe('signatureSubscribe', () => {
  it('notifies once of the receipt and once of the outcome, then ends the subscription', async () => {
    // A twin of the chain knows what comes next.
    const next = seek((updates) => ofKind(updates, 'transaction').at(0))
    const commitment = 'confirmed'
    const future = encodeBase58(next.signature)
    const id = await client.subscribe('signature', future, {
      commitment,
      enableReceivedNotification: true,
    })
    stage.step()
    expect(await client.upTo(id, 2)).toEqual([
      { context: { slot: next.slot }, value: 'receivedSignature' },
      { context: { slot: next.slot }, value: { err: JSON.parse(errText(next.err)) } },
    ])
    expect(await client.ask('signatureUnsubscribe', [id])).toMatchObject({
      error: { code: -32602 },
    })
  })

  it('answers at once for a signature that is final already, after the answer', async () => {
    const signature = new Uint8Array(64).fill(9)
    stage.statuses.set(keyOf(signature), {
      slot: 5,
      err: { InstructionError: [1, { Custom: 3 }] },
      commitment: 2,
    })
    const config = { commitment: 'finalized', enableReceivedNotification: true }
    const id = await client.subscribe('signature', text(signature), config)
    expect(await client.upTo(id, 2)).toEqual([
      { context: { slot: 5 }, value: 'receivedSignature' },
      { context: { slot: 5 }, value: { err: { InstructionError: [1, { Custom: 3 }] } } },
    ])
  })
})

describe('slotSubscribe, rootSubscribe, slotsUpdatesSubscribe', () => {
  it('notify of a slot when it begins, is rooted, and at every stage', async () => {
    const slot = await client.subscribe('slot')
    const root = await client.subscribe('root')
    const updates = await client.subscribe('slotsUpdates')
    const first = stage.synthetic.slot
    const transactions = ofKind(stage.step(), 'transaction')
    const failed = transactions.filter(({ err }) => err !== null).length
    expect(await client.upTo(slot, 1)).toEqual([
      { parent: first - 1, root: first - 5, slot: first },
    ])
    expect(await client.upTo(root, 1)).toEqual([first - 4])
    const told = await client.upTo(updates, 6)
    expect(told.map(({ type, slot: at }) => [type, at - first])).toEqual([
      ['firstShredReceived', 0],
      ['createdBank', 0],
      ['completed', 0],
      ['frozen', 0],
      ['optimisticConfirmation', -1],
      ['root', -4],
    ])
    expect(told[1].parent).toBe(first - 1)
    expect(told[3].stats).toEqual({
      numTransactionEntries: 1,
      numSuccessfulTransactions: 6 - failed,
      numFailedTransactions: failed,
      maxTransactionsPerEntry: 6,
    })
    for (const id of [slot, root, updates]) await client.ask('slotUnsubscribe', [id])
  })
})

describe('blockSubscribe', () => {
  it('notifies of whole blocks, or of the transactions that mention a key', async () => {
    const key = stage.synthetic.keys[4]!
    const config = {
      commitment: 'confirmed',
      encoding: 'json',
      maxSupportedTransactionVersion: 0,
      showRewards: true,
    }
    const all = await client.subscribe('block', 'all', config)
    const some = await client.subscribe('block', { mentionsAccountOrProgram: text(key) }, config)
    const [block] = ofKind(stage.step(), 'block')
    stage.step()
    const told = (await client.upTo(all, 2))[1].value
    expect(told).toMatchObject({ slot: block!.slot, err: null })
    expect(told.block).toMatchObject({
      blockhash: block!.meta.blockhash,
      previousBlockhash: block!.meta.parentBlockhash,
      parentSlot: block!.slot - 1,
      rewards: [],
    })
    expect(told.block.transactions.map((one: Shown) => one.transaction.signatures[0])).toEqual(
      block!.transactions.map(({ signature }) => text(signature)),
    )
    for (const { value } of client.of(some))
      expect(JSON.stringify(value.block.transactions)).toContain(text(key))
    const legacy = await client.subscribe('block', 'all', { commitment: 'confirmed' })
    seek((updates) =>
      ofKind(updates, 'block').find(({ transactions }) =>
        transactions.some(({ keys }) => keys.length > 4),
      ),
    )
    stage.step()
    await until(() => client.of(legacy).some(({ value }) => value.err !== null), 'a v0 transaction')
    const refused = client.of(legacy).find(({ value }) => value.err !== null)
    expect(refused.value).toMatchObject({ block: null, err: { UnsupportedTransactionVersion: 0 } })
    for (const id of [all, some, legacy]) await client.ask('blockUnsubscribe', [id])
  })

  it('refuses processed', async () => {
    expect(await client.ask('blockSubscribe', ['all', { commitment: 'processed' }])).toMatchObject({
      error: {
        code: -32602,
        message: 'Method does not support commitment below `confirmed`',
      },
    })
  })
})

describe('transactionSubscribe', () => {
  it('selects by a program that runs and how its data begins', async () => {
    const [program] = stage.synthetic.keys
    const subscribe = (instructions: object[]) =>
      client.subscribe('transaction', { instructions }, { commitment: 'processed' })
    const any = await subscribe([{ program: text(program!) }])
    const low = await subscribe(
      Array.from({ length: 40 }, (_, byte) => ({
        program: text(program!),
        dataPrefix: text(Uint8Array.of(byte)),
      })),
    )
    const seen: TransactionUpdate[] = []
    for (let slot = 0; slot < 40; slot++) seen.push(...ofKind(stage.step(), 'transaction'))
    /** The data of its instructions of the program. */
    const dataOf = (one: TransactionUpdate) => {
      const { message, meta } = decodeTransactionInfo(one.info)
      const inner = meta.innerInstructions!.flatMap(({ instructions }) => instructions)
      return [...message.instructions, ...inner]
        .filter(({ programIdIndex }) => same(one.keys[programIdIndex]!, program!))
        .map(({ data }) => data)
    }
    const ran = seen.filter((one) => dataOf(one).length > 0)
    const begun = ran.filter((one) => dataOf(one).some(([byte]) => byte !== undefined && byte < 40))
    expect(begun.length).toBeGreaterThan(0)
    expect(ran.length).toBeGreaterThan(begun.length)
    for (const [id, expected] of [[any, ran] as const, [low, begun] as const]) {
      const told = await client.upTo(id, expected.length)
      expect(told.map((one) => one.signature)).toEqual(expected.map((one) => text(one.signature)))
      await client.ask('transactionUnsubscribe', [id])
    }
  })

  it('joins the states of accounts before and after, where that is asked for', async () => {
    const accountInclude = stage.synthetic.keys.map(text)
    const details = { commitment: 'confirmed', transactionDetails: 'signatures' }
    const config = { ...details, accountStates: true, cursor: true }
    const id = await client.subscribe('transaction', { accountInclude }, config)
    const plain = await client.subscribe('transaction', { accountInclude }, details)
    const writes = new Map<string, { readonly was: AccountUpdate | null; now: AccountUpdate }>()
    const last = new Map<string, AccountUpdate>()
    for (let slot = 0; slot < 30; slot++)
      for (const write of ofKind(stage.step(), 'account')) {
        const key = text(write.pubkey)
        if (!accountInclude.includes(key)) continue
        if (write.txnSignature !== null) {
          const name = `${text(write.txnSignature)} ${key}`
          const was = writes.has(name) ? writes.get(name)!.was : (last.get(key) ?? null)
          writes.set(name, { was, now: write })
        }
        last.set(key, write)
      }
    const told = await client.upTo(id, 60)
    const shown = (account: AccountUpdate) => ({
      lamports: Number(account.lamports),
      data: [Buffer.from(account.data).toString('base64'), 'base64'],
      owner: text(account.owner),
    })
    let known = 0
    for (const { signature, accountStates } of told)
      for (const { pubkey, before, after } of accountStates) {
        // Of a slot before the subscribe, which is confirmed after it.
        const write = writes.get(`${signature} ${pubkey}`)
        if (write === undefined) continue
        expect(after).toMatchObject(shown(write.now))
        if (before === null || write.was === null) continue
        expect(before).toMatchObject(shown(write.was))
        known++
      }
    expect(known).toBeGreaterThan(0)
    const without = (await client.upTo(plain, 20)).slice(0, 20)
    expect(told.slice(0, 20).map(({ accountStates: _, ...rest }) => rest)).toEqual(without)
    for (const one of [id, plain]) await client.ask('transactionUnsubscribe', [one])
  })

  it('joins its filters by and, and shows what was sent', async () => {
    const [a, b, c] = stage.synthetic.keys
    const keyed = await client.subscribe(
      'transaction',
      {
        vote: false,
        failed: false,
        accountInclude: [text(a!), text(b!)],
        accountExclude: [text(c!)],
      },
      { commitment: 'processed' },
    )
    const nested = await client.subscribe(
      'transaction',
      { accounts: { required: [text(a!), text(b!)] } },
      { commitment: 'processed', transactionDetails: 'signatures' },
    )
    const seen: TransactionUpdate[] = []
    for (let slot = 0; slot < 60; slot++) seen.push(...ofKind(stage.step(), 'transaction'))
    const has = ({ keys }: TransactionUpdate, key: Uint8Array) => keys.some((one) => same(one, key))
    const wanted = seen.filter(
      (one) => !one.isVote && one.err === null && (has(one, a!) || has(one, b!)) && !has(one, c!),
    )
    const both = seen.filter((one) => has(one, a!) && has(one, b!))
    const told = await client.upTo(keyed, wanted.length)
    expect(told.map((one) => one.signature)).toEqual(wanted.map((one) => text(one.signature)))
    const { transaction, slot, transactionIndex } = told[0]
    expect([slot, transactionIndex]).toEqual([wanted[0]!.slot, wanted[0]!.index])
    expect(transaction.meta).toMatchObject({ err: null, status: { Ok: null }, fee: 5000 })
    const bytes = Buffer.from(transaction.transaction[0], 'base64')
    expect(text(bytes.subarray(1, 65))).toBe(told[0].signature)
    expect(both.length).toBeGreaterThan(0)
    expect((await client.upTo(nested, both.length)).map((one) => one.signature)).toEqual(
      both.map((one) => text(one.signature)),
    )
    expect(Object.keys(client.of(nested)[0])).toEqual(['signature', 'slot', 'transactionIndex'])
    for (const id of [keyed, nested]) await client.ask('transactionUnsubscribe', [id])
  })
})

describe('the limits of a connection', () => {
  it('refuses subscriptions over the plan with -32429 and keeps the socket', async () => {
    const poor = await stage.connect(stage.bundle.issue({ plan: 'three' }).token)
    const ids = await Promise.all(
      ['slot', 'slotsUpdates', 'root'].map((one) => poor.subscribe(one)),
    )
    expect(await poor.subscribe('slot')).toBe(ids[0])
    expect(await poor.ask('logsSubscribe', ['all'])).toMatchObject({ error: { code: -32429 } })
    await poor.ask('slotUnsubscribe', [ids[0]])
    expect((await poor.ask('logsSubscribe', ['all'])).result).toEqual(expect.any(Number))
  })

  it('refuses voteSubscribe with the reason', async () => {
    const message = 'Method not supported: the geyser stream carries no votes'
    for (const method of ['voteSubscribe', 'voteUnsubscribe'])
      expect(await client.ask(method)).toMatchObject({ error: { code: -32601, message } })
  })

  it('meters notifications and bytes, and counts subscriptions', async () => {
    const { token, subscription } = stage.bundle.issue()
    const counted = await stage.connect(token)
    const id = await counted.subscribe('slot')
    const { count } = stage.meters.subscriptions()
    stage.step()
    stage.step()
    await counted.upTo(id, 2)
    counted.socket.close()
    await until(() => stage.meters.subscriptions().count === count - 1, 'the end')
    const metered = stage.bundle.quota.budgetOf(subscription).takePending()
    expect(metered?.notifications).toBe(2)
    expect(metered?.bytes).toBeGreaterThan(200)
    const { body } = await stage.bundle.meters.render('text')
    expect(body).toMatch(/sluice_websocket_notifications_total\{topic="slot"\} [1-9]/)
    expect(body).toMatch(/sluice_websocket_delivery_seconds_count [1-9]/)
  })
})

describe('a client that does not read', () => {
  /** Publishes a slot; how many notifications it makes for the first owner. */
  const ownedIn = (stage: SubscriptionStage) =>
    lastWrites(stage.step()).filter(({ owner }) => same(owner, stage.synthetic.owners[0]!)).length

  it('is closed with 1013 at its bound while the others get everything', async () => {
    const busy = new SubscriptionStage({ accounts: 4, owners: 2, dataBytes: 60_000 })
    await busy.open({ unsentBytes: 1_048_576 })
    try {
      const [slow, fast] = [await busy.connect(), await busy.connect()]
      const params = [
        text(busy.synthetic.owners[0]!),
        { commitment: 'processed', encoding: 'base64' },
      ]
      await slow.subscribe('program', ...params)
      const id = await fast.subscribe('program', ...params)
      const closed = new Promise<number>((resolve) => slow.socket.once('close', resolve))
      slow.socket.pause()
      let written = 0
      while (busy.meters.subscriptions().count > 1) {
        written += ownedIn(busy)
        await fast.upTo(id, written)
      }
      slow.socket.resume()
      expect(await closed).toBe(1013)
      written += ownedIn(busy)
      expect((await fast.upTo(id, written)).length).toBe(written)
      expect(fast.socket.readyState).toBe(WebSocket.OPEN)
    } finally {
      await busy.stop()
    }
  })

  it('continues from the log, with everything once, where it has cursors', async () => {
    const busy = new SubscriptionStage({ accounts: 4, owners: 2, dataBytes: 60_000 }, {}, 2_000)
    await busy.open({ unsentBytes: 1_048_576 })
    try {
      const [slow, fast] = [await busy.connect(), await busy.connect()]
      const options = { commitment: 'processed', encoding: 'base64', cursor: true }
      const params = [text(busy.synthetic.owners[0]!), options]
      const id = await slow.subscribe('program', ...params)
      expect(await fast.subscribe('program', ...params)).toBe(id)
      let bytes = 0
      fast.socket.on('message', (data) => {
        bytes += String(data).length
      })
      slow.socket.pause()
      // More than the sockets of the system and the bound have together.
      for (let written = 0; bytes <= 16 * 1_048_576; ) {
        written += ownedIn(busy)
        await fast.upTo(id, written)
      }
      slow.socket.resume()
      const notices = () =>
        slow.notifications
          .filter(({ method }) => method === 'behindNotification')
          .map(({ result }) => result.isBehind)
      await until(() => {
        // Not while it reads: it would have more to read with every step.
        if (slow.of(id).length === fast.of(id).length) busy.step()
        return notices().at(-1) === false
      }, 'to be live again')
      for (let steps = 0; steps < 5; steps++) busy.step()
      await until(() => slow.of(id).length === fast.of(id).length, 'the same')
      expect(slow.of(id).map((result) => JSON.stringify(result))).toEqual(
        fast.of(id).map((result) => JSON.stringify(result)),
      )
      expect(notices()[0]).toBe(true)
      expect(slow.socket.readyState).toBe(WebSocket.OPEN)
    } finally {
      await busy.stop()
    }
  })
})
