// Entry of the analysis pool's workers: analyses one block per job, several when jobs pile up.
// Thread: analysis worker.
// Reads the block's records in place in the event ring; see src/streams/analysis/block-jobs.ts.
import { workerData } from 'node:worker_threads'
import {
  BlockAnalyst,
  type BlockJob,
  type BlockResult,
} from '../src/streams/analysis/block-jobs.ts'
import type { AnalysisMemory } from '../src/streams/analysis/memory.ts'

// Reason for the cast: flows/execution.ts fills workerData with exactly this.
const analyst = new BlockAnalyst(workerData as AnalysisMemory)

export default function analyse(jobs: readonly BlockJob[]): BlockResult[] {
  return analyst.analyseAll(jobs)
}
