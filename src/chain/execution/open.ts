// Opens the execution source that the configuration names. Thread: source worker.
// `ExecutionSourceSection` is plain values, so that it can be handed to a worker as it is.
import { assert } from '../../base/assert.ts'
import { Generator } from '../embedded/execution/generator.ts'
import type { ExecutionSource } from '../ports.ts'
import type { ExecutionSourceSection } from './config.ts'
import { type Pacer, TimerPacer } from './pacer.ts'

export function openExecutionSource(
  section: ExecutionSourceSection,
  { pacer = new TimerPacer() }: { readonly pacer?: Pacer } = {},
): ExecutionSource {
  assert(section.source === 'embedded', 'other sources follow')
  return new Generator(section.generator, pacer)
}
