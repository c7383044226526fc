// Subscriptions to every write of an account, and to the token accounts of a wallet.
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import type { Answer } from '../../../../src/base/jsonrpc/build.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { programs } from '../../../../src/chain/solana/programs.ts'
import {
  accountUpdate,
  retractionUpdate,
  slotUpdate,
  transactionUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import { type SlotStatus, slotStatus } from '../../../../src/chain/solana/updates.ts'
import { Subscriptions } from '../../../../src/products/websocket/handle.ts'
import { publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { declareSubscriptionMeters } from '../../../../src/streams/pubsub/notifier.ts'
import { budgetOn, type LooseSession, looseSession } from '../../../testkit/loose-session.ts'
import { idleChain } from '../../../testkit/pubsub-chain.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const key = (number: number) => new Uint8Array(32).fill(number)
const [account, other, program, wallet, buyer, system] = [1, 2, 3, 4, 5, 0].map(key)
const levels = ['processed', 'confirmed', 'finalized'] as const

class Stage {
  readonly meters = declareSubscriptionMeters(new Meters())
  readonly #chain = idleChain()
  readonly #synthetic = new SyntheticSolana()
  readonly #sessions: LooseSession[] = []
  readonly #subscriptions = new Subscriptions({
    meters: this.meters,
    clock: systemClock,
    log: silentLog,
  })

  constructor() {
    this.#subscriptions.usePublisher((topic, message) => {
      for (const session of this.#sessions) if (session.topics.has(topic)) session.sendNow(message)
    })
  }

  ask(topic: string, subject: Uint8Array, config: object): [Answer, LooseSession] {
    const session = looseSession(budgetOn(), this.#subscriptions.engineOf(this.#chain))
    this.#sessions.push(session)
    const params = [encodeBase58(subject), { encoding: 'base64', ...config }]
    const call = { method: '', params, paramsText: '', id: '1' }
    return [this.#subscriptions.methods[`${topic}Subscribe`]!(call, session) as Answer, session]
  }

  subscribe(topic: string, subject: Uint8Array, config: object): LooseSession {
    const [answer, session] = this.ask(topic, subject, config)
    expect(answer.kind).toBe('text')
    return session
  }

  write(slot: number, pubkey: Uint8Array, owner: Uint8Array, data: Uint8Array, lamports = 9n) {
    const content = { ...this.#synthetic.account(pubkey, null), owner, data, lamports }
    publishUpdate(this.#chain.hub, accountUpdate({ slot, createdAtMs: 0 }, content))
  }

  /** Writes with data of these sizes. */
  sizes(slot: number, pubkey: Uint8Array, owner: Uint8Array, ...sizes: number[]): void {
    for (const size of sizes) this.write(slot, pubkey, owner, new Uint8Array(size))
  }

  /** A transaction that touches token accounts: who had each before and has it after. */
  move(slot: number, index: number, moved: [Uint8Array, Uint8Array | null, Uint8Array | null][]) {
    const content = this.#synthetic.transaction(index)
    const balances = (side: 1 | 2) =>
      moved.flatMap((row, accountIndex) => {
        const owner = row[side]
        if (owner === null) return []
        const mint = encodeBase58(key(9))
        const programId = encodeBase58(programs.token)
        return [
          { accountIndex, mint, owner: encodeBase58(owner), programId, amount: '0', decimals: 0 },
        ]
      })
    const message = { ...content.message, accountKeys: moved.map(([touched]) => touched) }
    const loaded = { loadedWritableAddresses: [], loadedReadonlyAddresses: [] }
    const tokens = { preTokenBalances: balances(1), postTokenBalances: balances(2) }
    const meta = { ...content.meta, ...loaded, ...tokens }
    const update = transactionUpdate({ slot, createdAtMs: 0 }, { ...content, message, meta })
    publishUpdate(this.#chain.hub, update)
  }

  reach(slot: number, ...statuses: SlotStatus[]): void {
    for (const status of statuses)
      publishUpdate(
        this.#chain.hub,
        slotUpdate({ slot, createdAtMs: 0 }, { parent: slot - 1, status }),
      )
  }

  /** Another bank of the slot follows. */
  replace(slot: number): void {
    const handover = { bank: 1, reason: 'handover', restated: [] } as const
    this.#chain.hub.replaceBank(slot)
    publishUpdate(this.#chain.hub, retractionUpdate({ slot, createdAtMs: 0 }, handover))
    this.reach(slot, slotStatus.createdBank)
  }
}

const all = [slotStatus.processed, slotStatus.confirmed, slotStatus.finalized]
const valuesOf = ({ told }: LooseSession) =>
  told.map((text) => {
    const { context, value } = JSON.parse(text).params.result
    return { slot: context.slot, ...value, ...value.account }
  })
const spaces = (session: LooseSession) => valuesOf(session).map(({ slot, space }) => [slot, space])

/** An SPL Token account of the wallet. */
function token(owner: Uint8Array, amount = 1, bytes = 165): Uint8Array {
  const data = new Uint8Array(bytes)
  data.set(owner, 32)
  data[64] = amount
  data[108] = 1
  if (bytes > 165) data[165] = 2
  return data
}

describe('allWrites', () => {
  it.each(levels)('has every write of a slot in order, at %s, of the bank that stays', (level) => {
    for (const opt of [{}, { cursor: true }]) {
      const stage = new Stage()
      const config = { commitment: level, ...opt }
      const every = stage.subscribe('account', account!, { ...config, allWrites: true })
      const last = stage.subscribe('account', account!, config)
      const ofProgram = stage.subscribe('program', program!, { ...config, allWrites: true })
      stage.reach(7, slotStatus.createdBank)
      stage.sizes(7, account!, program!, 90, 91)
      stage.replace(7)
      stage.sizes(7, account!, program!, 1, 2)
      stage.sizes(7, account!, other!, 3)
      stage.sizes(7, account!, program!, 4)
      stage.reach(7, ...all)
      stage.sizes(8, account!, program!, 5, 6)
      stage.reach(8, ...all)
      expect(spaces(every)).toEqual(
        [1, 2, 3, 4]
          .map((size) => [7, size])
          .concat([
            [8, 5],
            [8, 6],
          ]),
      )
      expect(spaces(last)).toEqual([
        [7, 4],
        [8, 6],
      ])
      expect(spaces(ofProgram)).toEqual([
        [7, 1],
        [7, 2],
        [7, 4],
        [8, 5],
        [8, 6],
      ])
    }
  })

  it('is taken back by one retraction, and is no boolean but true or false', () => {
    const stage = new Stage()
    const config = { commitment: 'processed', retractions: true, allWrites: true }
    const session = stage.subscribe('account', account!, config)
    stage.reach(7, slotStatus.createdBank)
    stage.sizes(7, account!, program!, 1, 2)
    stage.reach(7, slotStatus.processed)
    stage.replace(7)
    expect(session.told).toHaveLength(3)
    expect(session.told[2]).toContain('"retracted":{"slot":7')
    const [answer] = stage.ask('account', account!, { allWrites: 1 })
    expect(answer).toMatchObject({ error: { code: -32602 } })
  })
})

describe('tokenOwnerSubscribe', () => {
  it.each(levels)('has the token accounts of both programs, new ones too, at %s', (level) => {
    const stage = new Stage()
    const session = stage.subscribe('tokenOwner', wallet!, { commitment: level })
    // Who has every write beside it changes nothing.
    stage.subscribe('account', account!, { commitment: level, allWrites: true })
    stage.write(7, account!, programs.token, token(wallet!, 5))
    stage.write(7, account!, programs.token, token(wallet!, 6))
    stage.write(7, key(20), programs.token, token(buyer!))
    stage.write(7, key(21), program!, token(wallet!))
    stage.write(7, key(22), programs.token, new Uint8Array(82))
    stage.reach(7, ...all)
    stage.write(8, other!, programs.token2022, token(wallet!, 7, 170))
    stage.reach(8, ...all)
    const told = valuesOf(session).map(({ slot, pubkey, data }) => [
      slot,
      pubkey,
      Buffer.from(data[0], 'base64')[64],
    ])
    expect(told).toEqual([
      [7, encodeBase58(account!), 6],
      [8, encodeBase58(other!), 7],
    ])
  })

  it('is told once more of an account that is closed, or goes to another wallet', () => {
    for (const opt of [{}, { cursor: true }, { retractions: true }]) {
      const stage = new Stage()
      const config = { commitment: 'processed', ...opt }
      const seller = stage.subscribe('tokenOwner', wallet!, config)
      const taker = stage.subscribe('tokenOwner', buyer!, config)
      // Both were the wallet's before the subscribe. The writes may come before the transaction.
      stage.write(7, account!, system!, new Uint8Array(0), 0n)
      stage.write(7, other!, programs.token, token(buyer!))
      stage.move(7, 0, [
        [account!, wallet!, null],
        [other!, wallet!, buyer!],
      ])
      stage.reach(7, ...all)
      stage.write(8, other!, programs.token, token(buyer!, 2))
      stage.write(8, account!, system!, new Uint8Array(0), 0n)
      stage.move(8, 0, [[other!, buyer!, buyer!]])
      stage.reach(8, ...all)
      const states = (session: LooseSession) =>
        valuesOf(session).map(({ slot, pubkey, lamports }) => [slot, pubkey, lamports])
      expect(states(seller)).toEqual([
        [7, encodeBase58(account!), 0],
        [7, encodeBase58(other!), 9],
      ])
      expect(states(taker)).toEqual([
        [7, encodeBase58(other!), 9],
        [8, encodeBase58(other!), 9],
      ])
    }
  })

  it('is not told of an account that came and went within a slot, in any order of reading', () => {
    const stage = new Stage()
    const session = stage.subscribe('tokenOwner', wallet!, { commitment: 'processed' })
    const [leaves, comes] = [
      (slot: number) => stage.move(slot, 5, [[account!, wallet!, buyer!]]),
      (slot: number) => stage.move(slot, 2, [[account!, null, wallet!]]),
    ]
    for (const [slot, order] of [
      [7, [leaves, comes]],
      [8, [comes, leaves]],
    ] as const) {
      stage.write(slot, account!, programs.token, token(buyer!))
      for (const move of order) move(slot)
      stage.reach(slot, ...all)
    }
    expect(session.told).toEqual([])
  })

  it('costs by the wallets that are found, not by those that exist', () => {
    const stage = new Stage()
    for (let number = 10; number < 60; number++)
      stage.subscribe('tokenOwner', key(number), { commitment: 'processed' })
    stage.write(7, account!, programs.token, token(key(11)))
    stage.write(7, other!, programs.token, token(wallet!))
    stage.reach(7, ...all)
    expect(stage.meters.examined).toBe(1)
  })
})
