// Opens the sink that the configuration names. Thread: main of the writer process.
// An engine is loaded only where it is used: DuckDB's is large.
import { Fault } from '../../base/errors.ts'
import type { RowSink } from './engine.ts'
import type { SinkPlace } from './writer.ts'

export async function openSink(place: SinkPlace): Promise<RowSink> {
  throw new Fault('no-engine', `there is no engine ${place.engine}`)
}
