// Records per second through the ring, beside postMessage and beside a ring in C.
// Thread: main of the bench process; the ends run in workers (ends/ring-ends.ts).
import type { Bench } from '../lib/bench.ts'
import {
  nativeContender,
  postMessageContender,
  ringContender,
  verifyEnds,
} from '../lib/ring-pair.ts'

const words = 32
const measures = 'throughput'

export const bench: Bench = {
  name: 'ring',
  question: 'How many records of 128 bytes pass from one thread to another per second?',
  cores: 2,
  baseline: postMessageContender('postMessage', { measures, words }),
  candidates: [
    ringContender('ring, published one by one', { measures, words, batch: 1, waits: 'wait' }),
    ringContender('ring, published by 32', { measures, words, batch: 32, waits: 'wait' }),
    ringContender('ring, read by main thread', { measures, words, batch: 1, waits: 'waitAsync' }),
    nativeContender('C ring, one by one', 'one', words),
    nativeContender('C ring, by 32', 'batch', words),
  ],
  goals: [
    {
      contender: 'ring, published one by one',
      to: 'C ring, one by one',
      figure: 'opsPerSecond',
      atLeast: 0.5,
    },
    {
      contender: 'ring, published by 32',
      to: 'C ring, by 32',
      figure: 'opsPerSecond',
      atLeast: 0.6,
    },
    {
      contender: 'ring, published one by one',
      to: 'postMessage',
      figure: 'opsPerSecond',
      atLeast: 25,
    },
  ],
  verify: verifyEnds,
}
