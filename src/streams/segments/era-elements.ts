// What a hub published, as elements of an era: which batches it takes, and runs of them.
import { assert } from '../../base/assert.ts'
import { Commitment } from '../../base/commitment.ts'
import { ReceivedBatch } from '../../chain/solana/received-batch.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import { AssembledBlock } from '../flows/tracked-slot.ts'
import { UpdateList, type UpdateRun, type UpdateSource } from '../hub/update-list.ts'
import type { ReadableElement, ReadableRun } from './kept-replay.ts'

/** Per commitment. */
export type Lists = readonly (readonly UpdateRun<SolanaUpdate>[])[]

export interface BatchUse {
  readonly source: ReceivedBatch
  /** Published as processed in this era: it must contain the batch. */
  readonly isOwn: boolean
}

export function runsOf(lists: Lists): BatchUse[] {
  const uses: BatchUse[] = []
  const add = ({ source, update }: UpdateRun<SolanaUpdate>, isOwn: boolean) => {
    if (source !== null) uses.push(useOf(source, isOwn))
    else if (update instanceof AssembledBlock)
      for (const item of update.items.runs()) add(item, false)
    else if (update?.kind === 'retraction')
      for (const restated of runsIn(update.restated)) add(restated, false)
  }
  for (const [commitment, list] of lists.entries())
    for (const run of list) add(run, commitment === Commitment.processed)
  return uses
}

function runsIn(updates: Iterable<SolanaUpdate>): readonly UpdateRun<SolanaUpdate>[] {
  const list = new UpdateList<SolanaUpdate>()
  for (const update of updates) list.push(update)
  return list.runs()
}

function useOf(source: UpdateSource, isOwn: boolean): BatchUse {
  assert(source instanceof ReceivedBatch, 'a node sent it')
  return { source, isOwn }
}

/** With its source; the place of a batch is not known yet. */
export function elementOf({
  source,
  update,
  start,
  end,
}: UpdateRun<SolanaUpdate>): ReadableElement {
  if (source !== null) return runOf(source, start, end)
  if (update instanceof AssembledBlock) {
    const { slot, isMixed, hasVoid } = update
    const items = update.items.runs().map((item) => runOf(item.source!, item.start, item.end))
    return { kind: 'block', slot, isMixed, hasVoid, meta: plain(update.meta), items }
  }
  if (update?.kind !== 'retraction') return { kind: 'update', update: plain(update!) }
  const { restated, ...own } = update
  return { kind: 'retraction', update: plain(own), restated: runsIn(restated).map(elementOf) }
}

function runOf(source: UpdateSource, start: number, end: number): ReadableRun {
  assert(source instanceof ReceivedBatch, 'a node sent it')
  const slots = new Set<number>()
  for (let at = start; at < end; at++) slots.add(source.slotAt(at))
  const slot = source.slotAt(end - 1)
  return { kind: 'run', era: 0, batch: 0, start, end, slot, slots: [...slots], source }
}

/** Its bytes are views of a batch: a copy is passed on alone. */
function plain<T extends object>(update: T): T {
  const entries = Object.entries(update).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? new Uint8Array(value) : value,
  ])
  // Reason for the cast: the same members.
  return Object.fromEntries(entries) as T
}
