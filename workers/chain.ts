// Child process of the embedded chain: executes transactions and keeps no state that the ledger
// lacks. Thread: main of its own process.
import { Svm } from '../src/devnode/svm.ts'
import { serveFrames } from '../src/threads/frames.ts'

const svm = new Svm()

serveFrames({
  load: (accounts: Parameters<Svm['load']>[0]) => svm.load(accounts),
  genesis: (keys: Parameters<Svm['genesis']>[0]) => svm.genesis(keys),
  execute: (input: Parameters<Svm['execute']>[0]) => svm.execute(input),
  simulate: (input: Parameters<Svm['simulate']>[0]) => svm.simulate(input),
})
