// Defects that the simulation finds: each takes what prevents it out of a compiled module.
// A defect is put into the modules of one process only (`--defect`), as they are loaded.

export interface Defect {
  /** One word, for `npm run simulate -- --defect name`. */
  readonly name: string
  /** One line: what goes wrong without what is taken out. */
  readonly what: string
  /** The world that finds it, within so many seeds. */
  readonly world: string
  readonly seeds: number
  /** How the seed fails. */
  readonly fails: RegExp
  readonly cuts: readonly Cut[]
}

export interface Cut {
  /** Path below src, without its ending. */
  readonly file: string
  /** Text of the compiled module, which has it once, and what is put in its place. */
  readonly text: string
  readonly put: string
}

export const defects: readonly Defect[] = [
  {
    name: 'evicted-eras',
    what: 'a replay of evicted slots that nobody reads keeps all later updates in memory',
    world: 'chain',
    seeds: 10,
    fails: /stalled readers keep \d+ updates of evicted slots in memory/,
    cuts: [
      { file: 'streams/hub/hub', text: 'first.next = null;\n            for', put: 'for' },
      { file: 'streams/hub/hub', text: 'updates.clear();', put: 'void updates;' },
    ],
  },
  {
    name: 'stalled-replay',
    what: 'a reader that stopped in a replay is never ended, although its slots were evicted',
    world: 'chain',
    seeds: 10,
    fails: /a stalled reader of evicted slots is not ended/,
    cuts: [
      { file: 'streams/geyser/replayer', text: 'pause(ms = lostCheckMs)', put: 'pause(ms = 1e9)' },
    ],
  },
  {
    name: 'replay-refused',
    what: 'a node that evicts the slot asked for counts as one without replay: its slots are lost',
    world: 'chain',
    seeds: 30,
    fails: /grpc at confirmed/,
    cuts: [
      {
        file: 'upstream/geyser/geyser-feed',
        text: 'end.code === unimplemented || tries === replayTriesMax',
        put: 'tries > 0',
      },
    ],
  },
]
