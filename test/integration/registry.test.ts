// One registry, several processes: nothing acknowledged is ever lost, whoever is killed.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Directory } from '../../src/customers/auth/directory.ts'
import { Gate } from '../../src/customers/auth/gate.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import { acknowledged, checkDone, killParts, runPart } from '../testkit/registry-parts.ts'
import { until } from '../testkit/until.ts'

const by = { who: 'test' }
let folder: string
const stores: Store[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-registry-'))
})

afterEach(async () => {
  killParts()
  for (const store of stores.splice(0)) await store.close()
  rmSync(folder, { recursive: true, force: true })
})

function openHere(): Store {
  const store = openStore(folder, { clock: systemClock })
  stores.push(store)
  return store
}

describe('several processes on one registry', () => {
  it('lose no change of each other', async () => {
    const parts = ['a', 'b'].map((prefix) => runPart('provision', folder, prefix, '150'))
    const store = openHere()
    let own = 0
    while (!parts.every((part) => part.exited())) {
      const added = store.add({ label: `own-${own}`, products: ['bundle'] }, by)
      expect(added.ok).toBe(true)
      own++
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    for (const part of parts) expect(part.errors()).toBe('')
    expect(parts.map(acknowledged)).toEqual([150, 150])
    for (const prefix of ['a', 'b']) checkDone(store, prefix, 150)
    expect(store.list()).toHaveLength(60 + own)
    expect(store.verifyAudit()).toMatchObject({ ok: true, entries: 300 + own })
  })

  it('a change made by a command is in force in the server, and closes what it must', async () => {
    const store = openHere()
    const added = store.add({ label: 'x-0', products: ['bundle'] }, by)
    if (!added.ok) throw new Error(added.refusal.message)
    const directory = new Directory(store, { clock: systemClock, log: silentLog })
    const gate = new Gate(directory, { clock: systemClock })
    directory.start()
    const credentials = { xToken: added.value.token }
    const principal = gate.admit('websocket', credentials, '127.0.0.1')
    expect(principal).not.toBeNull()
    let isClosed = false
    gate.lease(principal!, 'websocket', '127.0.0.1', () => {
      isClosed = true
    })
    const command = runPart('rotate', folder, 'x-0')
    await until(() => command.lines.includes('rotated'), 'the rotation')
    await until(() => isClosed, 'the stream of the rotated token to close')
    expect(gate.admit('rpc', credentials, '127.0.0.1')).toBeNull()
    directory.stop()
  })
})

describe('kill -9', () => {
  it.each([40, 333, 700])(
    'in the middle of 1,000 changes, after %i of them, loses none that was acknowledged',
    async (killAfter) => {
      const watching = openHere()
      const part = runPart('provision', folder, 'k', '1000')
      await until(() => acknowledged(part) >= killAfter, `${killAfter} changes`)
      part.child.kill('SIGKILL')
      await until(() => part.exited(), 'the killed process to be gone')
      expect(part.errors()).toBe('')
      const done = acknowledged(part)
      const store = openHere()
      for (const each of [watching, store]) {
        checkDone(each, 'k', done)
        // The one under way when it was killed is there whole or not at all.
        expect([done, done + 1]).toContain(each.version())
        expect(each.verifyAudit()).toMatchObject({ ok: true })
      }
      expect(store.add({ label: 'after', products: ['bundle'] }, by).ok).toBe(true)
      expect(store.verifyAudit().ok).toBe(true)
    },
  )

  it('forgives at most one second of use', async () => {
    const store = openHere()
    store.add({ label: 'acme', products: ['bundle'] }, by)
    const part = runPart('spend', folder, 'acme')
    const spent = () =>
      part.lines.map((line) => {
        const [, timeMs, total] = line.split(' ')
        return { timeMs: Number(timeMs), total: Number(total) }
      })
    await until(() => {
      const all = spent()
      return all.length > 1 && all.at(-1)!.timeMs - all[0]!.timeMs > 1500
    }, 'use for more than a second')
    part.child.kill('SIGKILL')
    await until(() => part.exited(), 'the killed process to be gone')
    const all = spent()
    const end = all.at(-1)!
    const owed = all.findLast(({ timeMs }) => timeMs <= end.timeMs - 1000)!
    const kept = openHere().usage('acme')!.window.credits
    expect(kept).toBeGreaterThanOrEqual(owed.total)
    expect(kept).toBeLessThanOrEqual(end.total + 50)
  })

  it('gives the data folder free, which until then one server alone can have', async () => {
    const first = runPart('lock', folder)
    await until(() => first.lines.includes('locked'), 'the first lock')
    const second = runPart('lock', folder)
    await until(() => second.exited(), 'the second server to be refused')
    expect(second.lines[0]).toContain(`in use by process ${first.child.pid}`)
    // A command needs no lock.
    expect(openHere().add({ label: 'beside', products: ['bundle'] }, by).ok).toBe(true)
    first.child.kill('SIGKILL')
    await until(() => first.exited(), 'the holder to be gone')
    const third = runPart('lock', folder)
    await until(() => third.lines.includes('locked'), 'the lock after the kill')
  })
})
