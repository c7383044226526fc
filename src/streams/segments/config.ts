// Configuration of the stream log: how much of a set's stream is kept on disk.
import { choice, group, integer, type Values } from '../../base/fields.ts'

export const streamsSection = group('What from_slot reaches back to, beyond memory.', {
  keep: integer({
    initial: 6 * 60 * 60 * 1_000,
    min: 0,
    max: 30 * 24 * 60 * 60 * 1_000,
    unit: 'ms',
    doc: 'How long the updates of a set are kept on disk for from_slot; 0: in memory only.',
  }),
  bytes: integer({
    initial: 0,
    min: 0,
    max: 64 * 1024 ** 4,
    unit: 'bytes',
    doc: 'Bytes of it per set; 0: the smaller of 20 GiB and a tenth of the free disk at the start.',
  }),
  compress: choice(['none', 'zstd'], {
    initial: 'none',
    doc: 'Compression of what is kept; zstd takes a core at 100 to 200 MB/s.',
  }),
})

export type StreamsSection = Values<(typeof streamsSection)['fields']>
