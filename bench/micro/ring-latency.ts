// How long one record takes from thread to thread, with the reader polling and asleep.
// Thread: main of the bench process; the ends run in workers (ends/ring-ends.ts).
import type { Bench } from '../lib/bench.ts'
import {
  nativeContender,
  postMessageContender,
  ringContender,
  verifyEnds,
} from '../lib/ring-pair.ts'

const words = 32
const measures = 'latency'

export const bench: Bench = {
  name: 'ring-latency',
  question: 'How long does a record take to another thread, one every 50 us?',
  cores: 2,
  baseline: postMessageContender('postMessage', { measures, words }),
  candidates: [
    ringContender('ring, reader polls', { measures, words, batch: 1, waits: 'poll' }),
    ringContender('ring, reader sleeps', { measures, words, batch: 1, waits: 'wait' }),
    ringContender('ring, main thread sleeps', { measures, words, batch: 1, waits: 'waitAsync' }),
    nativeContender('C ring, reader polls', 'poll', words),
    nativeContender('C ring, reader sleeps', 'sleep', words),
  ],
  goals: [
    { contender: 'ring, reader sleeps', figure: 'p50', atMost: 25 },
    { contender: 'ring, reader polls', to: 'C ring, reader polls', figure: 'p50', atMost: 1.8 },
  ],
  verify: verifyEnds,
}
