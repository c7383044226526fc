// Opens the execution source that the configuration selects. Thread: source worker.
// `ExecutionSourceSection` contains plain values, so that it can be passed to a worker.

import { isRecording } from '../../base/recording-file.ts'
import type { ExecutionSource } from '../ports.ts'
import type { ExecutionSourceSection } from './config.ts'
import { Generator } from './generator/generator.ts'
import { type Pacer, TimerPacer } from './pacer.ts'
import { RecordedEvents } from './recorded-events.ts'
import { RingFile } from './ring-file.ts'
import { Snapshot, type SnapshotProgress } from './snapshot.ts'

export interface ExecutionSourceDeps {
  readonly pacer?: Pacer
  /** Called while a snapshot plays: each block, at full speed every few thousand events. */
  readonly onProgress?: (progress: SnapshotProgress) => void
}

export function openExecutionSource(
  section: ExecutionSourceSection,
  { pacer = new TimerPacer(), onProgress }: ExecutionSourceDeps = {},
): ExecutionSource {
  const { path, speed, loop, generator } = section
  switch (section.source) {
    case 'embedded':
      return new Generator(generator, pacer)
    case 'snapshot':
      if (isRecording(path)) return new RecordedEvents(path)
      return new Snapshot({ path, speed, loop, blockMs: generator.blockMs }, pacer, onProgress)
    case 'ring':
      return new RingFile({ path }, pacer)
  }
}
