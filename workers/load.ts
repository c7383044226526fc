// Entry of a thread that generates load. Thread: load.
import { parentPort, workerData } from 'node:worker_threads'
import { runLoadWorker } from '../src/loadtest/load-worker.ts'

if (parentPort !== null) await runLoadWorker(parentPort, workerData)
