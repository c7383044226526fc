// Runs one part against a registry in a process of its own, as the compiled code does it, and
// acknowledges on stdout what is done. Used by test/integration/registry*.test.ts.
import { writeSync } from 'node:fs'
import { systemClock } from '../../dist/src/base/clock.js'
import { silentLog } from '../../dist/src/base/telemetry/log.js'
import { Push, receiverOf, usageQueue } from '../../dist/src/customers/push/push.js'
import { Quota } from '../../dist/src/customers/quota/quota.js'
import { lockData } from '../../dist/src/customers/subscriptions/lock.js'
import { unlimitedPlan } from '../../dist/src/customers/subscriptions/plans.js'
import { openStore } from '../../dist/src/customers/subscriptions/store.js'

const [part, path, ...rest] = process.argv.slice(2)
const by = { who: `process ${process.pid}` }
const tell = (line) => writeSync(1, `${line}\n`)

/** Every kind of change in turn; a line after each one that was acknowledged. */
function provision(prefix, count) {
  const store = openStore(path, { clock: systemClock })
  tell('ready')
  for (let number = 0; number < count; number++) {
    const label = `${prefix}-${number - (number % 5)}`
    const change = [
      () => store.add({ label, products: ['bundle', 'indexer'] }, by),
      () => store.rotate(label, { graceMs: 3_600_000 }, by),
      () => store.set(label, { cidrs: [`10.0.${number % 256}.0/24`] }, by),
      () => store.suspend(label, by),
      () => store.addNote(label, { kind: 'other', text: `change ${number}` }, by),
    ][number % 5]
    const done = change()
    if ('refusal' in done) throw new Error(done.refusal.message)
    // Use is written at the same time, as in a running server.
    const delta = { window: 0, credits: 1, calls: 1, refused: 0, notifications: 0, bytes: 0 }
    void store.addUsage([{ id: store.find(label).id, ...delta }])
    tell(`done ${number}`)
  }
  void store.close()
}

/** Spends without end, telling the total so far with the time. */
function spend(label) {
  const store = openStore(path, { clock: systemClock })
  const plans = { standard: unlimitedPlan }
  const quota = new Quota({ plans, ledger: store, clock: systemClock, log: silentLog })
  quota.start()
  const subscription = store.find(label)
  let total = 0
  setInterval(() => {
    for (let count = 0; count < 50; count++) if (quota.budgetOf(subscription).spend('x').ok) total++
    tell(`spent ${performance.now()} ${total}`)
  }, 10)
}

/** Counts usage without end and pushes it, as a gateway does, but all the time. */
async function push(label, url) {
  const clock = systemClock
  const store = openStore(path, { clock, pushRowsMax: 1_000 })
  const queue = { what: 'usage', unpushed: usageQueue(store.unpushed) }
  const bounds = { everyMs: 100, rowsMax: 1_000 }
  const secret = 'a secret for the test'
  const receiver = receiverOf({ url, secret, file: '', ...bounds }, clock)
  const pushing = new Push({ ...queue, ...receiver, everyMs: 100, clock, log: silentLog })
  const { id } = store.find(label)
  const counts = { credits: 3, calls: 1, refused: 0, notifications: 0, bytes: 7 }
  setInterval(() => void pushing.push(), 1)
  for (let number = 0; ; number++) {
    await store.addUsage([{ id, window: 0, ...counts }])
    tell(`done ${number}`)
  }
}

/** What the operator's command does: one change, then gone. */
async function rotate(label) {
  const store = openStore(path, { clock: systemClock })
  if (store.rotate(label, { graceMs: 0 }, by).ok) tell('rotated')
  await store.close()
}

async function lock() {
  const locked = await lockData(path)
  tell('refusal' in locked ? `refused ${locked.refusal.message}` : 'locked')
  if (locked.ok) setInterval(() => {}, 1000)
}

if (part === 'provision') provision(rest[0], Number(rest[1]))
else if (part === 'spend') spend(rest[0])
else if (part === 'push') await push(rest[0], rest[1])
else if (part === 'rotate') await rotate(rest[0])
else await lock()
