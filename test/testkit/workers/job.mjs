// A pool's job for tests.
import { workerData } from 'node:worker_threads'

export default async function job({ does, value, gate }) {
  if (does === 'exit') process.exit(3)
  if (does === 'throw') throw new Error('the job threw')
  if (does === 'uncaught') {
    setTimeout(() => {
      throw new Error('thrown outside the job')
    })
    await new Promise(() => {})
  }
  if (does === 'loop') for (;;) Atomics.add(new Int32Array(gate), 0, 1)
  if (does === 'wait') Atomics.wait(new Int32Array(gate), 0, 0, 20_000)
  return { value, data: workerData?.shared }
}
