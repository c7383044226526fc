// Updates of a chain as nodes send them in batches, and as a hub replays them.
import { hash } from 'node:crypto'
import type { Commitment } from '../../src/base/commitment.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { slotUpdate } from '../../src/chain/solana/received-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../src/chain/solana/updates.ts'
import { SolanaUpstream } from '../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import { decodePosition, encodePosition, type Position } from '../../src/streams/geyser/position.ts'
import type { KeptReplay } from '../../src/streams/segments/kept-replay.ts'
import { batchFrom, messageOf } from './geyser-messages.ts'
import { randomOf, SyntheticSolana } from './synthetic-solana.ts'

const digest = (bytes: Uint8Array) => hash('sha1', bytes).slice(0, 12)

/** Everything a subscriber can be sent of it. */
function textOf(update: SolanaUpdate): string {
  if (update.kind === 'retraction')
    return `${update.slot} retraction ${digest(update.body)} of ${[...update.restated].map(textOf)}`
  if (update.kind === 'slot') return `${update.slot} status ${update.status}`
  if (update.kind !== 'block') return `${update.slot} ${update.kind} ${digest(update.body)}`
  const { slot, meta, transactions, accounts, entries } = update
  const parts = [meta, ...transactions, ...accounts, ...entries]
  return `${slot} block ${parts.map(({ body }) => digest(body)).join(' ')}`
}

/** Batches of one to 60 updates, wherever slots begin and end. */
export function inBatches(updates: readonly SolanaUpdate[], seed: number): SolanaUpdate[][] {
  const random = randomOf(seed)
  const left = updates.filter(({ kind }) => kind !== 'block')
  const batches: SolanaUpdate[][] = []
  while (left.length > 0) batches.push(left.splice(0, 1 + Math.floor(random() * 60)))
  return batches
}

const chains = new Map<string, readonly SolanaUpdate[]>()

/** Nothing changes its updates: it is made once. */
export function chainOf(slots: number, options = {}): readonly SolanaUpdate[] {
  const name = JSON.stringify([slots, options])
  const known = chains.get(name)
  if (known !== undefined) return known
  const chain = new SyntheticSolana({ confirmedAfter: 2, finalizedAfter: 8, ...options })
  const made = Array.from({ length: slots }, () => chain.next()).flat()
  chains.set(name, made)
  return made
}

/** Every third slot has a bank before its own, of which two items come late. */
export function withVoidBanks(updates: readonly SolanaUpdate[]): SolanaUpdate[] {
  const isItem = ({ kind }: SolanaUpdate) => ['account', 'transaction', 'entry'].includes(kind)
  return updates.flatMap((update) => {
    const { slot, createdAtMs } = update
    const isBank = update.kind === 'slot' && update.status === slotStatus.createdBank
    if (!isBank || slot % 3 !== 0) return [update]
    const items = updates.filter((one) => one.slot === slot && isItem(one))
    const before = slotUpdate({ slot, createdAtMs }, { parent: slot - 2, status: update.status })
    return [before, ...items.slice(0, 7), update, ...items.slice(7, 9)]
  })
}

/** As a reader sends it back. */
export const sentBack = (position: Position): Position => decodePosition(encodePosition(position))!

/** A hub that forgets nothing. */
export function rememberAll(updates: readonly SolanaUpdate[]) {
  const hub = openSolanaHub({ replaySlots: 1e6, replayBytesMax: 1e12 })
  const sink = new SolanaUpstream(hub, { bankSalt: 'salt', log: silentLog })
  sink.opened(null)
  for (const batch of inBatches(updates, 7))
    sink.batch(batchFrom(batch.map((update) => messageOf(update))))
  const known = new Map<SolanaUpdate, string>()
  const knownText = (update: SolanaUpdate) => {
    const text = known.get(update) ?? textOf(update)
    known.set(update, text)
    return text
  }
  return (commitment: Commitment, fromSlot: number) => {
    const replay = hub.replay(commitment, fromSlot)!
    const texts: string[] = []
    for (let one = replay.next(); one !== null; one = replay.next()) texts.push(knownText(one))
    return texts
  }
}

/** Reads to the end, or `count` updates. */
export async function read(
  replay: KeptReplay,
  count = Number.POSITIVE_INFINITY,
  take: (update: SolanaUpdate) => void = () => {},
): Promise<string[]> {
  const texts: string[] = []
  while (texts.length < count) {
    if (replay.isLost) throw new Error('lost')
    const update = replay.next()
    if (update === null) return texts
    if (update !== 'loading') {
      take(update)
      texts.push(textOf(update))
    } else if (!replay.isLost)
      await new Promise<void>((resolve) => {
        replay.onLoaded = resolve
      })
  }
  return texts
}

export const from = (fromSlot: number, commitment: Commitment, wantsBlocks = true) => ({
  fromSlot,
  commitment,
  wantsBlocks,
})
