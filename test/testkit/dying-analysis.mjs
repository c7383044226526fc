// The analysis worker with a weak heart: it dies in the middle of a block, as its mode says.
// globalThis.deathMode: how 'exit', 'throw', 'hang' or 'loop' (for ever); when 'before', 'during' or
// 'after' the turn is passed on; every n-th ticket; so many times per ticket, then it survives;
// folder for thread ids.
// What it has done already lies in page 0 of the shared memory, which nobody else uses there.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { threadId, workerData } from 'node:worker_threads'
import { BlockAnalyst, SyncTable } from '../../dist/src/streams/analysis/block-jobs.js'

const { how, when, every, times, folder } = globalThis.deathMode
const deaths = new Int32Array(workerData.memory.buffer, 32_768, 1024)

function perhapsDie(ticket) {
  if (ticket % every !== every - 1) return
  if (Atomics.add(deaths, ticket % 1000, 1) >= times) return
  Atomics.add(deaths, 1023, 1)
  if (how === 'exit') process.exit(1)
  if (how === 'throw') throw new Error('died as told')
  if (how === 'loop') for (;;);
  // Tells its thread, and hangs until the test ends it from outside.
  writeFileSync(join(folder, String(threadId)), '')
  Atomics.wait(deaths, 1022, 0)
}

const { awaitTurn, pass } = SyncTable.prototype
SyncTable.prototype.awaitTurn = function (ticket, round) {
  const turn = awaitTurn.call(this, ticket, round)
  if (when === 'before' && turn !== null) perhapsDie(ticket)
  return turn
}
SyncTable.prototype.pass = function (ticket, state) {
  if (when === 'during') perhapsDie(ticket)
  pass.call(this, ticket, state)
  if (when === 'after') perhapsDie(ticket)
}

const analyst = new BlockAnalyst(workerData)
export default (jobs) => analyst.analyseAll(jobs)
