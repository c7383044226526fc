// Defects that world `streams` finds where a node comes back inside of a slot.
import type { Defect } from './defect.ts'

export const streamsDefects: readonly Defect[] = [
  {
    name: 'early-processed',
    what: 'a slot is processed before the items that the node sends which is behind',
    world: 'streams',
    seeds: 10,
    fails: /is processed, and .* came after that/,
    cuts: [
      {
        file: 'streams/flows/slot-tracker',
        text: 'status === slotStatus.processed && this.#confirmations.isToCome(tracked, stream)',
        put: 'status === slotStatus.processed && tracked.isOpen',
      },
    ],
  },
  {
    name: 'block-of-a-part',
    what: 'a block is confirmed without writes, as a node sent it that came back inside of the slot',
    world: 'streams',
    from: 1_050,
    seeds: 10,
    fails: /of slot \d+ are lost/,
    cuts: [
      {
        file: 'streams/flows/open-streams',
        text: 'view.isPart = tracked.slot <= (open?.partUpTo ?? -1)',
        put: '',
      },
    ],
  },
]
