// Entry of the thread that sends the time, so that other threads can measure their lag.
// Thread: heartbeat.
import { parentPort } from 'node:worker_threads'
import { runHeartbeat } from '../src/loadtest/lag-watch.ts'

if (parentPort !== null) runHeartbeat(parentPort)
