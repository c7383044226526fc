// What a token check with its quota, the reload of the registry and the flush of usage cost as the
// registry grows. Thread: main of the bench process; each size is a process of its own.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Directory } from '../../src/customers/auth/directory.ts'
import { Gate } from '../../src/customers/auth/gate.ts'
import { Quota } from '../../src/customers/quota/quota.ts'
import { issueToken } from '../../src/customers/subscriptions/issue.ts'
import { standardPlan } from '../../src/customers/subscriptions/plans.ts'
import { growthBench, type OpenWorks } from '../lib/growth.ts'
import { recordOf } from '../lib/registered.ts'

/** Customers that call at the same time, at every size. */
const active = 1_000
const stride = 7_919
const plan = {
  ...standardPlan,
  creditsPerSecond: 10_000_000,
  burst: 100_000_000,
  creditsPer30Days: Number.MAX_SAFE_INTEGER,
}

export const bench = growthBench({
  name: 'growth-tokens',
  question: 'What does a larger registry cost?',
  axis: 'tokens in the registry',
  sizes: [10, 100, 1_000, 10_000, 100_000, 1_000_000],
  sizeMax: 100_000,
  lines: ['check, 1,000 callers', 'check, all call', 'reload, per token', 'usage flush, 1 caller'],
  file: import.meta.url,
})

export const open: OpenWorks = async (size) => {
  const tokens = Array.from({ length: size }, issueToken)
  const records = tokens.map(recordOf)
  // Only what the directory and the quota keep is counted; the records are the registry's.
  const emptyBytes = usedBytes()
  const load = () =>
    new Directory(
      {
        head: () => ({ seq: 1, hash: '1' }),
        holds: () => true,
        changedSince: () => null,
        registered: () => null,
        allRegistered: () => records,
      },
      { clock: systemClock, log: silentLog },
    )
  const gate = new Gate(load(), { clock: systemClock })
  const quota = new Quota({
    plans: { standard: plan },
    ledger: { openWindow: () => window, addUsage: async () => {} },
    clock: systemClock,
    log: silentLog,
  })
  for (const { subscription } of records) quota.budgetOf(subscription)
  const bytesPerEntry = (usedBytes() - emptyBytes) / size
  const check = (among: number) => {
    let at = 0
    let refused = 0
    return {
      stepsPerTurn: 256,
      bytesPerEntry,
      step() {
        at = (at + stride) % among
        // As an endpoint does: the text comes anew from the bytes of the request.
        const xToken = Buffer.from(tokens[at]!, 'latin1').toString('latin1')
        const principal = gate.admit('rpc', { xToken }, '127.0.0.1')
        if (principal === null || !quota.budgetOf(principal.subscription).spend('getHealth').ok)
          refused++
        return 1
      },
      problem: () => (refused === 0 ? undefined : `${refused} valid tokens were refused`),
    }
  }
  return {
    'check, 1,000 callers': check(Math.min(size, active)),
    'check, all call': check(size),
    'reload, per token': {
      step() {
        load()
        return size
      },
    },
    'usage flush, 1 caller': {
      async step() {
        quota.budgetOf(records[0]!.subscription).spend('getHealth')
        await quota.flush()
        return 1
      },
    },
  }
}

const window = { window: 0, credits: 0, startsAtMs: 0, endsAtMs: Number.MAX_SAFE_INTEGER }

/** As `--expose-gc` would give it, which a child process is not started with. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  gc()
}

function usedBytes(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}
