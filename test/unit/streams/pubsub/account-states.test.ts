// States of accounts before and after transactions, on PubSub: by the slots that gRPC is tested
// with, and by what gRPC sends of the same chain.
import { describe, expect, it } from 'vitest'
import { decodeBase58, encodeBase58, keyOf } from '../../../../src/chain/solana/base58.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { GeyserStage, turns } from '../../../testkit/geyser-streams.ts'
import type { LooseSession } from '../../../testkit/loose-session.ts'
import { notifications, PubsubGateway } from '../../../testkit/pubsub-gateway.ts'
import {
  brokenChain,
  brokenStates,
  chainStates,
  changingChain,
  changingStates,
  first,
  other,
  second,
  slotWith,
  statesChain,
  writtenAll,
} from '../../../testkit/states-chain.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'
import { until } from '../../../testkit/until.ts'

interface Account {
  readonly lamports: number
  readonly data: readonly [string, 'base64']
  readonly space: number
}

interface Shown {
  readonly signature: string
  readonly slot: number
  readonly accountStates?: readonly {
    readonly pubkey: string
    readonly before: Account | null
    readonly after: Account | null
  }[]
}

const include = [first, second].map((key) => encodeBase58(key))

function subscribe(gateway: PubsubGateway, config: object = {}, accountInclude = include) {
  const session = gateway.connect()
  const answer = ask(gateway, session, config, accountInclude)
  expect(answer.kind).toBe('text')
  return session
}

function ask(gateway: PubsubGateway, session: LooseSession, config: object, keys = include) {
  const asked = { transactionDetails: 'signatures', commitment: 'confirmed', accountStates: true }
  return gateway.ask(session, 'transaction', [{ accountInclude: keys }, { ...asked, ...config }])
}

const shownIn = (session: LooseSession) =>
  notifications(session).map(({ result }) => result as Shown)

/** `name, account before>after` of each transaction. */
function joined(session: LooseSession): string[] {
  const text = (account: Account | null) => {
    if (account === null) return '?'
    expect([Buffer.from(account.data[0], 'base64')[0], account.space]).toEqual([
      account.lamports,
      1,
    ])
    return String(account.lamports)
  }
  return shownIn(session).map(({ signature, accountStates }) =>
    [
      String.fromCharCode(decodeBase58(signature)![0]!),
      ...accountStates!.map(({ pubkey, before, after }) => {
        return `${decodeBase58(pubkey)![0]} ${text(before)}>${text(after)}`
      }),
    ].join(', '),
  )
}

describe('accountStates', () => {
  it.each(['confirmed', 'finalized'])('are joined to their transaction at %s', (commitment) => {
    const gateway = new PubsubGateway()
    const live = subscribe(gateway, { commitment })
    const withCursor = subscribe(gateway, { commitment, cursor: true })
    gateway.publish(statesChain())
    expect(joined(live)).toEqual(chainStates)
    expect(joined(withCursor)).toEqual(chainStates)
  })

  it.each(['signatures', 'full'])('change no other byte of %s, nor what others get', (details) => {
    const gateway = new PubsubGateway()
    const config = { transactionDetails: details, blockTime: true }
    const asked = subscribe(gateway, config)
    const plain = subscribe(gateway, { ...config, accountStates: false })
    gateway.publish(statesChain())
    expect(asked.told.length).toBe(chainStates.length)
    const without = asked.told.map((text) =>
      text.replace(/,"accountStates":\[.*?\](?=[,}]("transaction"|,|}))/, ''),
    )
    expect(without.map((text) => text.replace('"subscription":1', '"subscription":2'))).toEqual(
      plain.told,
    )
    for (const { accountStates } of shownIn(plain)) expect(accountStates).toBeUndefined()
  })

  it('are unknown after a slot that is missing, not whole, or has writes of another bank', () => {
    const gateway = new PubsubGateway()
    const live = subscribe(gateway)
    gateway.publish(brokenChain())
    expect(joined(live)).toEqual(brokenStates)
  })

  it('are those that gRPC sends of the same chain', async () => {
    const chain = new SyntheticSolana({ seed: 3, accounts: 12, finalizedAfter: 6 })
    const updates: SolanaUpdate[] = Array.from({ length: 24 }, () => chain.next()).flat()
    const keys = new Set(updates.flatMap((one) => (one.kind === 'account' ? [one.pubkey] : [])))
    const watched = [...keys].slice(0, 40).map((key) => encodeBase58(key))
    const [stage, gateway] = [new GeyserStage(), new PubsubGateway()]
    const lists = { accountExclude: [], accountRequired: [], instructions: [] }
    const mine = { ...lists, accountInclude: watched, accountStates: true }
    const stream = stage.open({ commitment: 1, transactions: { mine } })
    const session = subscribe(gateway, {}, watched)
    for (const update of updates) publishUpdate(stage.hub, update)
    gateway.publish(updates)
    await turns()
    const stateOf = (state: { lamports: string; data?: Uint8Array } | null | undefined) =>
      state ? `${state.lamports ?? 0} ${Buffer.from(state.data ?? []).toString('base64')}` : null
    const expected = stream.updates().flatMap(({ transaction }) => {
      if (!transaction) return []
      const states = (transaction.accountStates ?? []).map(({ pubkey, before, after }) => {
        return [encodeBase58(pubkey), stateOf(before), stateOf(after)]
      })
      return [{ name: keyOf(transaction.transaction.signature), states }]
    })
    const shown = shownIn(session).map(({ signature, accountStates }) => {
      const states = accountStates!.map(({ pubkey, before, after }) => {
        return [pubkey, ...[before, after].map((one) => one && `${one.lamports} ${one.data[0]}`)]
      })
      return { name: keyOf(decodeBase58(signature)!), states }
    })
    expect(shown).toEqual(expected)
    expect(shown.flatMap(({ states }) => states).length).toBeGreaterThan(20)
  })

  it('continue after a cursor, and know after the hand-over what the replay has read', async () => {
    const gateway = new PubsubGateway()
    const stayed = subscribe(gateway, { cursor: true })
    const elsewhere = new PubsubGateway()
    for (const each of [gateway, elsewhere]) each.publish(statesChain())
    const { cursor } = notifications(stayed)[0]!
    const resumed = subscribe(elsewhere, { resume: cursor })
    await until(() => resumed.topics.size > 0, 'to be live')
    expect(joined(resumed)).toEqual(chainStates.slice(1))
    const next = slotWith(14, 13, writtenAll(14, 9, 'f'))
    for (const each of [gateway, elsewhere]) each.publish(next)
    expect(joined(resumed).at(-1)).toBe('f, 21 3>9, 22 7>9')
    expect(joined(resumed)).toEqual(joined(stayed).slice(1))
  })

  it('are those of a replay where others watch other accounts', async () => {
    const gateway = new PubsubGateway()
    subscribe(gateway, { cursor: true }, [encodeBase58(second)])
    const elsewhere = new PubsubGateway()
    const stayed = subscribe(elsewhere, { cursor: true }, [encodeBase58(first)])
    for (const each of [gateway, elsewhere]) each.publish(statesChain())
    const { cursor } = notifications(stayed)[0]!
    const resumed = subscribe(gateway, { resume: cursor }, [encodeBase58(first)])
    await until(() => resumed.topics.size > 0, 'to be live')
    for (const each of [gateway, elsewhere]) each.publish(slotWith(14, 13, writtenAll(14, 9, 'f')))
    expect(joined(resumed).at(-1)).toBe('f, 21 3>9')
    expect(joined(resumed)).toEqual(joined(stayed).slice(1))
  })

  it('follow keys that change, and forget those that nobody watches', () => {
    const gateway = new PubsubGateway()
    const live = subscribe(gateway, { cursor: true })
    const change = (delta: object) => gateway.call(live, 'transactionUpdate', [1, delta])
    const [before, between, after] = changingChain()
    gateway.publish(before)
    change({
      add: { accountInclude: [encodeBase58(other)] },
      remove: { accountInclude: [encodeBase58(first)] },
    })
    gateway.publish(between)
    change({ add: { accountInclude: [encodeBase58(first)] } })
    gateway.publish(after)
    expect(joined(live)).toEqual(changingStates)
  })

  it('are known as long as some subscription watches the account', () => {
    const gateway = new PubsubGateway()
    const keys = [[first], [second]].map((list) => list.map((key) => encodeBase58(key)))
    const [left] = [subscribe(gateway, {}, keys[0]), subscribe(gateway, {}, keys[1])]
    gateway.publish(slotWith(10, 9, writtenAll(10, 1)))
    const stays = subscribe(gateway, {}, keys[0])
    left!.end()
    gateway.publish(slotWith(11, 10, writtenAll(11, 2)))
    stays.end()
    gateway.publish(slotWith(12, 11, writtenAll(12, 3)))
    const again = subscribe(gateway, {}, keys[0])
    gateway.publish(slotWith(13, 12, writtenAll(13, 4)))
    expect([joined(stays), joined(again)]).toEqual([['a, 21 1>2'], ['a, 21 ?>4']])
  })

  it('are refused at processed, without keys and with too many', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect({ filterKeys: 5_000 })
    const messageOf = (config: object, keys = include) => {
      const answer = ask(gateway, session, config, keys)
      return answer.kind === 'error' ? answer.error.message : answer.kind
    }
    expect(messageOf({ commitment: 'processed' })).toMatch(/accountStates: only at `confirmed`/)
    expect(messageOf({}, [])).toMatch(/accountStates: needs keys in accountInclude/)
    expect(messageOf({ accountStates: 'yes' })).toMatch(/invalid type: string "yes"/)
    expect(messageOf({})).toBe('text')
    const add = Array.from({ length: 999 }, (_, at) => {
      const key = Buffer.alloc(32, 1)
      key.writeUInt16BE(at)
      return encodeBase58(key)
    })
    const update = (keys: string[]) =>
      gateway.call(session, 'transactionUpdate', [1, { add: { accountInclude: keys } }])
    expect(JSON.stringify(update(add))).toContain('at most 1000 keys are allowed')
    expect(update(add.slice(1)).kind).toBe('text')
  })
})
