// Writes and opens of the registry exclude each other between processes.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { OpenLock } from '../../../../src/customers/subscriptions/lock.ts'
import { openStore } from '../../../../src/customers/subscriptions/store.ts'
import { until } from '../../../testkit/until.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-open-lock-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Another process runs `code` with `openStore`, `OpenLock`, `folder` and `tell`. */
function elsewhere(code: string) {
  const dist = new URL('../../../../dist/src/', import.meta.url)
  const script = `
    import { readSync } from 'node:fs'
    import { systemClock } from '${dist}base/clock.js'
    import { OpenLock } from '${dist}customers/subscriptions/lock.js'
    import { openStore } from '${dist}customers/subscriptions/store.js'
    const folder = ${JSON.stringify(folder)}
    const tell = (word) => process.stdout.write(word + ' ')
    ${code}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let words = ''
  child.stdout.on('data', (chunk) => {
    words += String(chunk)
  })
  const ended = new Promise((resolve) => child.on('exit', resolve))
  return { child, ended, words: () => words.split(' ') }
}

const waits = { openMs: 60_000, writeMs: 60_000 }
const patience = `OpenLock.of(folder, ${JSON.stringify(waits)})`

/** Another process that has the registry to itself until its input ends; resolves when it does. */
async function aloneElsewhere() {
  const opener = elsewhere(`
    ${patience}.whileAlone(() => {
      tell('alone')
      readSync(0, Buffer.alloc(1))
    })
    tell('done')`)
  await until(() => opener.words().includes('alone'), 'the lock')
  return opener
}

it('a write waits while another process opens the registry', async () => {
  const opener = await aloneElsewhere()
  const lock = OpenLock.of(folder, waits)
  let isWritten = false
  const writing = lock.whileWriting(async () => {
    isWritten = true
  })
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(isWritten).toBe(false)
  opener.child.stdin.end('.')
  await writing
  await opener.ended
  expect(opener.words()).toContain('done')
  lock.close()
})

it('an open waits while another process writes', async () => {
  const lock = OpenLock.of(folder)
  let release = () => {}
  const writing = lock.whileWriting(
    () =>
      new Promise<void>((resolve) => {
        release = resolve
      }),
  )
  const opener = elsewhere(`
    tell('opens')
    ${patience}.whileAlone(() => tell('alone'))`)
  await until(() => opener.words().includes('opens'), 'the other process')
  await new Promise((resolve) => setTimeout(resolve, 100))
  const before = opener.words().includes('alone')
  release()
  await writing
  await opener.ended
  expect(before).toBe(false)
  expect(opener.words()).toContain('alone')
  lock.close()
})

it('a process that is stuck keeps no other from writing for long', async () => {
  const opener = await aloneElsewhere()
  const lock = OpenLock.of(folder, { openMs: 50, writeMs: 50 })
  expect(await lock.whileWriting(async () => 'written')).toBe('written')
  expect(lock.whileWritingSync(() => 'written')).toBe('written')
  // An open that went on without the lock could take back what was written.
  expect(() => lock.whileAlone(() => 'open')).toThrow('does not end')
  opener.child.kill('SIGKILL')
  await opener.ended
  lock.close()
})

it('loses no change of a writer while others open the registry', async () => {
  const store = openStore(folder, { clock: systemClock })
  expect(store.add({ label: 'acme', products: ['bundle'] }, { who: 'test' }).ok).toBe(true)
  const opener = elsewhere(`
    for (let opens = 0; opens < 500; opens++) {
      const store = openStore(folder, { clock: systemClock })
      await store.close()
    }
    tell('done')`)
  let changes = 1
  while (!opener.words().includes('done') && opener.child.exitCode === null) {
    const note = { kind: 'other', text: `note ${changes}` } as const
    expect(store.addNote('acme', note, { who: 'test' }).ok).toBe(true)
    changes++
    await new Promise((resolve) => setImmediate(resolve))
  }
  await opener.ended
  expect(opener.words()).toContain('done')
  expect(store.verifyAudit()).toMatchObject({ ok: true, entries: changes })
  await store.close()
})

it('a registry that is closed waits for its writes, also those that wait for the lock', async () => {
  const store = openStore(folder, { clock: systemClock })
  const added = store.add({ label: 'a', products: ['bundle'] }, { who: 'test' })
  const id = added.ok ? added.value.subscription.id : ''
  const opener = await aloneElsewhere()
  const delta = { window: 0, credits: 7, calls: 1, refused: 0, notifications: 0, bytes: 0 }
  const written = store.addUsage([{ id, ...delta }])
  const closed = store.close()
  opener.child.stdin.end('.')
  await Promise.all([written, closed, opener.ended])
  const again = openStore(folder, { clock: systemClock })
  expect(again.usage(id)?.window.credits).toBe(7)
  await again.close()
})
