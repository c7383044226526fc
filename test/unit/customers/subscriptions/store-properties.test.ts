// Random provisioning; checks all invariants after each change.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Directory } from '../../../../src/customers/auth/directory.ts'
import { openStore, type Store } from '../../../../src/customers/subscriptions/store.ts'

const by = { who: 'test' }
const labels = ['a', 'b', 'c']
const addresses = ['127.0.0.1:9000', '127.0.0.1:9001', '[::1]:9000']
const kinds = [
  'add',
  'set',
  'suspend',
  'resume',
  'end',
  'rotate',
  'grace',
  'destination',
  'confirm',
  'fail',
  'pause',
  'unpause',
  'clear',
  'wait',
] as const

const steps = fc.array(
  fc.record({
    kind: fc.constantFrom(...kinds),
    label: fc.constantFrom(...labels),
    address: fc.constantFrom(...addresses),
  }),
  { maxLength: 60 },
)
type Step = { kind: (typeof kinds)[number]; label: string; address: string }

describe('any provisioning', () => {
  it('keeps labels and destinations unique, the audit chain whole and the gate up to date', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-any-'))
    let run = 0
    await fc.assert(
      fc.asyncProperty(steps, async (taken) => {
        const state = { nowMs: Date.parse('2026-01-01T00:00:00Z') }
        const clock = { nowMs: () => state.nowMs, monotonicMs: () => state.nowMs }
        const destinationRules = { allowPrivate: true, own: [], interfaces: [] }
        const known = { plans: ['standard', 'unlimited'], destinationRules }
        const store = openStore(join(folder, String(run++)), { clock, known })
        const directory = new Directory(store, { clock, log: silentLog })
        for (const step of taken) {
          apply(store, step, state)
          directory.refresh()
          checkUnique(store)
          checkDirectory(store, directory, state.nowMs)
        }
        expect(store.verifyAudit()).toMatchObject({ ok: true, entries: store.version() })
        await store.close()
      }),
      { numRuns: 25 },
    )
    rmSync(folder, { recursive: true })
  })
})

function apply(store: Store, step: Step, state: { nowMs: number }): void {
  const { label, address } = step
  const verbs: Record<Step['kind'], () => unknown> = {
    add: () => store.add({ label, products: ['bundle', 'shredstream'], destination: address }, by),
    set: () => store.set(label, { plan: 'unlimited', cidrs: ['10.0.0.0/8'] }, by),
    suspend: () => store.suspend(label, by),
    resume: () => store.resume(label, by),
    end: () => store.end(label, by),
    rotate: () => store.rotate(label, { graceMs: 0 }, by),
    grace: () => store.rotate(label, { graceMs: 1000 }, by),
    destination: () => store.setDestination(label, address, by),
    confirm: () => store.confirmDestination(label, by),
    fail: () => store.failDestination(label, by),
    pause: () => store.pauseDestination(label, by),
    unpause: () => store.resumeDestination(label, by),
    clear: () => store.clearDestination(label, by),
    wait: () => {
      state.nowMs += 600
    },
  }
  verbs[step.kind]()
}

function checkUnique(store: Store): void {
  const living = store.list().filter(({ state }) => state !== 'ended')
  const taken = living.map(({ label }) => label)
  expect(new Set(taken).size).toBe(taken.length)
  const claimed = living.flatMap(({ destination }) =>
    [destination?.address, destination?.standing].filter((text) => text != null),
  )
  expect(new Set(claimed).size).toBe(claimed.length)
}

/** The index in memory has exactly the live tokens of the registry. */
function checkDirectory(store: Store, directory: Directory, nowMs: number): void {
  for (const record of store.allRegistered()) {
    const isActive = record.subscription.state === 'active'
    expect(directory.entry(record.tokenDigest) !== undefined).toBe(isActive)
    if (record.retiring === null) continue
    const isInGrace = isActive && nowMs < record.retiring.untilMs
    const entry = directory.entry(record.retiring.digest)
    expect(entry !== undefined).toBe(isInGrace)
  }
}
