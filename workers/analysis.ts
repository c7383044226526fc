// A worker of the analysis pool: a block per job, several when they pile up.
// Thread: analysis worker.
// Reads the block's records where the event ring has them; see src/analysis/job.ts.
import { workerData } from 'node:worker_threads'
import { BlockAnalyst, type BlockJob, type BlockResult } from '../src/analysis/job.ts'
import type { AnalysisMemory } from '../src/analysis/memory.ts'

// Reason for the cast: flows/execution.ts fills workerData with exactly this.
const analyst = new BlockAnalyst(workerData as AnalysisMemory)

export default function analyse(jobs: readonly BlockJob[]): BlockResult[] {
  return analyst.analyseAll(jobs)
}
