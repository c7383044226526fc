// Configuration fields of the metrics product's source of execution events.
// Thread: main, and the source worker by value. They belong to the section `metrics`.
import { choice, flag, group, integer, number, text, type Values } from '../../base/fields.ts'

export const executionSourceFields = {
  source: choice(['embedded', 'snapshot', 'ring'], {
    initial: 'embedded',
    doc: 'Source of execution events: generator, recorded snapshot, live Monad event ring.',
  }),
  path: text({
    initial: '',
    doc: 'File of the snapshot (`.zst` or raw ring) or of the live event ring.',
  }),
  speed: choice(['recorded', 'fixed', 'full'], {
    initial: 'fixed',
    doc: 'Pace of a snapshot: recorded, a block per `generator.blockMs`, none. A recording: none.',
  }),
  loop: flag({
    initial: false,
    doc: 'Play a snapshot (not a recording) in a loop with increasing numbers; otherwise once.',
  }),
  generator: group('The embedded generator.', {
    seed: integer({
      initial: 1,
      min: 0,
      max: 4_294_967_295,
      doc: 'The same seed gives the same chain.',
    }),
    tps: integer({
      initial: 515,
      min: 0,
      max: 10_000,
      unit: 'transactions/s',
      doc: 'Transactions per second on average.',
    }),
    skew: number({
      initial: 1.1,
      min: 0,
      max: 2,
      doc: 'Skew of contract calls (exponent of a Zipf distribution).',
    }),
    blockMs: integer({
      initial: 400,
      min: 20,
      max: 60_000,
      unit: 'ms',
      doc: 'Block time; also applies to a snapshot at fixed speed.',
    }),
  }),
} as const

export type ExecutionSourceSection = Values<typeof executionSourceFields>
