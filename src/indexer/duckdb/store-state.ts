// The states of the embedded index's store, and the transitions between them.
// Thread: main of the writer process.
//
//            ┌────────────────────────── ready ◄───────────────────────────┐
//            │ write      │ publish,      │ merged copy       │ cut        │
//            ▼            ▼ full, old     ▼ complete, expired ▼            │
//         writing     rotating        replacing            cutting         │
//            │            ▼               │                   │            │
//            │         sealing            ▼                   │            │
//            │            └───────────► listing ◄─────────────┘            │
//            └───────────────────────────┴─────────────────────────────────┘
//   any of these ── the disk or the engine failed ──► broken ── next task ──► opening ──► ready
//
//   writing    rows and marks into the hot file, in one commit: durable
//   rotating   creates the next hot file, with all marks
//   sealing    turns the previous hot file into an immutable one that readers may open
//   listing    writes readable.json, the list of files that readers open
//   replacing  puts a merged file in the place of its sources, or drops expired files
//   cutting    rewrites the files that have rows of a chain that restarted
//   opening    lists the folder, replays the hot file's log, seals it; also what follows a crash
import { assert } from '../../base/assert.ts'

const transitions = {
  opening: ['rotating', 'listing', 'broken'],
  ready: ['writing', 'rotating', 'listing', 'replacing', 'cutting', 'broken'],
  writing: ['ready', 'broken'],
  rotating: ['sealing', 'broken'],
  sealing: ['listing', 'broken'],
  replacing: ['listing', 'broken'],
  cutting: ['listing', 'broken'],
  listing: ['ready', 'broken'],
  broken: ['opening'],
} as const
export type StoreState = keyof typeof transitions

/** Throws when the state machine has no such transition. */
export function assertTransition(from: StoreState, to: StoreState): void {
  const allowed: readonly StoreState[] = transitions[from]
  assert(allowed.includes(to), `the store goes from ${from} to ${to}`)
}
