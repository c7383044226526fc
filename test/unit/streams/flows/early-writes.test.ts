// Sysvars that are written with a bank, and come before the message that tells its creation.
import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { accountUpdate } from '../../../../src/chain/solana/received-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../../../src/chain/solana/updates.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub } from '../../../../src/streams/geyser/hub.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

function open() {
  const hub = openSolanaHub()
  const sink = new SolanaUpstream(hub, { log: silentLog })
  const published: [string[], string[], string[]] = [[], [], []]
  hub.listen((commitment, update) => void published[commitment].push(textOf(update)))
  const send = (stream: number, updates: readonly SolanaUpdate[]) => {
    const messages = updates.filter(({ kind }) => kind !== 'block')
    for (const one of messages) sink.batch(batchFrom([messageOf(one)]), stream)
  }
  return { sink, published, send }
}

function textOf(update: SolanaUpdate): string {
  const { slot, kind } = update
  if (kind === 'slot') return `${slot} status ${update.status}`
  if (kind === 'block')
    return `${slot} block ${update.isMixed} ${update.accounts.map(({ lamports }) => lamports)}`
  return `${slot} ${kind} ${Buffer.from(update.body).toString('base64')}`
}

const chain = new SyntheticSolana({ seed: 4, finalizedAfter: 3 })
const slots = Array.from({ length: 8 }, () => chain.next())
const [earlier, own, later] = [slots.slice(0, 3).flat(), slots[3]!, slots.slice(4).flat()]
const at = own.findIndex((one) => one.kind === 'slot' && one.status === slotStatus.createdBank)
const [before, created, after] = [own.slice(0, at), own[at]!, own.slice(at + 1)]
const account = own.find((one) => one.kind === 'account')!
const moment = { slot: account.slot, createdAtMs: account.createdAtMs }
const sysvars = [7n, 8n].map((lamports) =>
  accountUpdate(moment, { ...account, lamports, txnSignature: null }),
)

describe('what is written with a bank', () => {
  const { sink, send, published: expected } = open()
  sink.opened(1000)
  send(0, [...earlier, ...before, created, ...sysvars, ...after, ...later])

  it.each([
    ['one stream', [0]],
    ['one of two that have them', [0, 1]],
    ['the other one', [1, 0]],
  ])('follows its creation, which %s tells', (_, streams) => {
    const gateway = open()
    for (const stream of streams) gateway.sink.opened(1000, stream, `node ${stream}`)
    gateway.send(0, earlier)
    for (const stream of streams) gateway.send(stream, [...before, ...sysvars])
    const [last] = streams.slice(-1)
    gateway.send(last!, [created, ...after, ...later])
    expect(gateway.published).toEqual(expected)
  })

  it('is there without it, as in a replay, and with what the node sends of other slots', () => {
    const gateway = open()
    gateway.sink.opened(1000)
    const [shreds, rest] = [later.slice(0, 1), later.slice(1)]
    gateway.send(0, [...earlier, ...before, ...sysvars, ...shreds, ...after, ...rest])
    const words = textOf(created)
    for (const commitment of [0, 1, 2] as const)
      expect(gateway.published[commitment].toSorted()).toEqual(
        expected[commitment].filter((text) => text !== words).toSorted(),
      )
  })

  it('does not wait where a node sends nothing else: 64 of them do', () => {
    const gateway = open()
    gateway.sink.opened(1000)
    gateway.send(0, [...earlier, ...before])
    const written = () =>
      gateway.published[0].filter((text) => text.startsWith(`${account.slot} account`)).length
    gateway.send(
      0,
      Array.from({ length: 64 }, () => sysvars[0]!),
    )
    expect(written()).toBe(0)
    gateway.send(0, [sysvars[1]!])
    expect(written()).toBe(65)
  })

  it('is not left over for the next connection', () => {
    const gateway = open()
    gateway.sink.opened(1000)
    gateway.send(0, [...earlier, ...before, ...sysvars])
    gateway.sink.opened(1000)
    gateway.send(0, [...earlier, ...before, created, ...sysvars, ...after, ...later])
    expect(gateway.published).toEqual(expected)
  })
})
