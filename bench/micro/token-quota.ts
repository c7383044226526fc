// What authentication and quota cost a request. Thread: main of the bench process.
// Each call makes the header text anew from bytes, as an endpoint does; every row includes it.
// A token that came before is looked up by its text, one that comes for the first time by its
// SHA-256: known and unknown ones must take the same time in both cases.
import { createHash, timingSafeEqual } from 'node:crypto'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Directory } from '../../src/customers/auth/directory.ts'
import { Gate } from '../../src/customers/auth/gate.ts'
import { Quota } from '../../src/customers/quota/quota.ts'
import { issueToken } from '../../src/customers/subscriptions/issue.ts'
import { standardPlan } from '../../src/customers/subscriptions/plans.ts'
import type { Bench, Contender, Goal } from '../lib/bench.ts'
import { recordOf } from '../lib/registered.ts'
import { singleFunction } from '../lib/single-function.ts'

const subscriptions = 1000
/** More than the directory remembers: each has been forgotten when it comes again. */
const forgotten = 20_000
const address = '127.0.0.1'

const allKnown = Array.from({ length: forgotten }, issueToken)
const allStrangers = Array.from({ length: forgotten }, issueToken)
const known = allKnown.slice(0, subscriptions)
const strangers = allStrangers.slice(0, subscriptions)
const records = allKnown.map(recordOf)
const directory = new Directory(
  {
    head: () => ({ seq: 1, hash: '1' }),
    holds: () => true,
    changedSince: () => null,
    registered: () => null,
    allRegistered: () => records,
  },
  { clock: systemClock, log: silentLog },
)
const gate = new Gate(directory, { clock: systemClock })
// Rich enough that no round is cut short, limited enough that every step is taken.
const plan = { ...standardPlan, creditsPerSecond: 10_000_000, burst: 100_000_000 }
const ledger = {
  openWindow: () => ({
    window: 0,
    credits: 0,
    startsAtMs: 0,
    endsAtMs: Number.MAX_SAFE_INTEGER,
  }),
  addUsage: async () => {},
}
const quota = new Quota({
  plans: { standard: { ...plan, creditsPer30Days: Number.MAX_SAFE_INTEGER } },
  ledger,
  clock: systemClock,
  log: silentLog,
})
const plainRegistry = new Map(records.map((record) => [record.tokenDigest, record]))

export const bench: Bench = {
  name: 'token-quota',
  question: 'What do the token check and the quota cost a request?',
  cores: 1,
  baseline: overAll('createHash, map, timingSafeEqual', known, plainCheck),
  candidates: [
    overAll('known token', known, admit),
    overAll('unknown token', strangers, admit),
    overAll('known token, first time', allKnown, admit),
    overAll('unknown token, first time', allStrangers, admit),
    overAll('known token and quota', known, (token) => {
      const principal = gate.admit('rpc', { xToken: token }, address)
      return principal !== null && quota.budgetOf(principal.subscription).spend('getHealth').ok
    }),
  ],
  goals: [
    // 0.6 us a check with its quota.
    { contender: 'known token and quota', figure: 'opsPerSecond', atLeast: 1_666_667 },
    // A stranger learns nothing from the time that a refusal takes.
    ...sameTime('unknown token', 'known token'),
    ...sameTime('unknown token, first time', 'known token, first time'),
  ],
  verify({ evidence }, contender) {
    const { admitted, asked } = evidence as { admitted: number; asked: number }
    const expected = contender.startsWith('unknown') ? 0 : asked
    if (asked === 0) return 'nothing was asked'
    return admitted === expected ? undefined : `admitted ${admitted} of ${asked}`
  },
}

function admit(token: string): unknown {
  return gate.admit('rpc', { xToken: token }, address)
}

function sameTime(contender: string, to: string): Goal[] {
  return [
    { contender, to, figure: 'opsPerSecond', atLeast: 0.8 },
    { contender, to, figure: 'opsPerSecond', atMost: 1.25 },
  ]
}

/** Asks for every token once per call; counts what was let in. */
function overAll(
  name: string,
  tokens: readonly string[],
  check: (token: string) => unknown,
): Contender {
  const bytes = tokens.map((token) => Buffer.from(token, 'latin1'))
  let asked = 0
  let admitted = 0
  return singleFunction({
    name,
    callsEach: tokens.length,
    call() {
      for (const each of bytes) if (check(each.toString('latin1'))) admitted++
      asked += bytes.length
    },
    evidence() {
      const counted = { asked, admitted }
      asked = admitted = 0
      return counted
    },
  })
}

/** The way one writes it first. */
function plainCheck(token: string): boolean {
  const digest = createHash('sha256').update(token).digest()
  const record = plainRegistry.get(digest.toString('hex'))
  return record !== undefined && timingSafeEqual(Buffer.from(record.tokenDigest, 'hex'), digest)
}
