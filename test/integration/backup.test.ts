// `sluice backup` beside writers, and `sluice restore` of good, damaged, cut, older and foreign copies.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { lockData } from '../../src/customers/subscriptions/lock.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import { runCommand } from '../testkit/command.ts'
import { runHere } from '../testkit/run-here.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-backup-'))
const data = join(root, 'data')
let made = 0
const fresh = () => join(root, `folder-${++made}`)
let store: Store
const by = { who: 'test' }

function add(label: string): string {
  const added = store.add({ label, products: ['bundle'] }, by)
  if (!added.ok) throw new Error(added.refusal.message)
  return added.value.subscription.id
}

async function backup(): Promise<string> {
  const folder = fresh()
  expect(await runHere('backup', folder, '--data', data)).toMatchObject({ code: 0, stderr: '' })
  return folder
}

beforeAll(() => {
  mkdirSync(data, { mode: 0o700 })
  store = openStore(join(data, 'registry'), { clock: systemClock })
  writeFileSync(join(data, 'tip-accounts.json'), '["a"]\n')
})
afterAll(async () => {
  await store.close()
  rmSync(root, { recursive: true })
})

describe('a copy', () => {
  it('has every change that was acknowledged before it began, while others are made', async () => {
    const id = add('first')
    await store.addUsage([
      { id, window: 0, credits: 7, calls: 2, refused: 1, notifications: 0, bytes: 9 },
    ])
    for (let number = 0; number < 50; number++) add(`before-${number}`)
    const before = store.version()
    const folder = fresh()
    // In a process of its own, so that changes are made while it copies.
    const copying = runCommand(['backup', folder, '--data', data, '--json'])
    let isCopying = true
    const done = copying.finally(() => {
      isCopying = false
    })
    for (let number = 0; isCopying && number < 5_000; number++) {
      add(`beside-${number}`)
      await new Promise((resolve) => setImmediate(resolve))
    }
    const ran = await done
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    const { head } = ran.json() as { head: { seq: number } }
    expect(head.seq).toBeGreaterThanOrEqual(before)
    const into = fresh()
    expect(await runHere('restore', folder, '--data', into)).toMatchObject({ code: 0, stderr: '' })
    const restored = openStore(join(into, 'registry'), { clock: systemClock })
    try {
      expect(restored.verifyAudit()).toMatchObject({ ok: true, entries: head.seq })
      const known = [...store.audit()].filter(({ seq }) => seq <= head.seq)
      const ids = known.map(({ subject }) => subject)
      expect(new Set(restored.list().map(({ id }) => id))).toEqual(new Set(ids))
      expect(restored.usage(id)).toEqual(store.usage(id))
    } finally {
      await restored.close()
    }
    expect(readFileSync(join(into, 'tip-accounts.json'), 'utf8')).toBe('["a"]\n')
    expect(existsSync(join(into, 'restoring'))).toBe(false)
  })

  it('is readable by its owner alone', async () => {
    const folder = await backup()
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
      expect([name, statSync(join(folder, name)).mode & 0o077]).toEqual([name, 0])
  })

  it('is not made in a folder that has something', async () => {
    const folder = fresh()
    mkdirSync(folder)
    writeFileSync(join(folder, 'mine'), '')
    const ran = await runHere('backup', folder, '--data', data)
    expect(ran).toMatchObject({ code: 1 })
    expect(ran.stderr).toContain('is not empty')
    expect(readdirSync(folder)).toEqual(['mine'])
    const onFile = await runHere('backup', join(folder, 'mine'), '--data', data)
    expect(onFile.code).toBe(1)
    expect(onFile.stderr).toContain(`no copy was made in ${join(folder, 'mine')}`)
  })
})

describe('a restore', () => {
  it('tells which changes the copy lacks, and needs a yes', async () => {
    const folder = await backup()
    const last = store.version()
    add('lost')
    const into = fresh()
    mkdirSync(into)
    writeFileSync(join(into, 'registry-head'), `${store.head().seq} ${store.head().hash}\n`)
    const asked = await runHere('restore', folder, '--data', into)
    expect(asked.code).toBe(1)
    expect(asked.stderr).toContain('--yes')
    expect(readdirSync(into).sort()).toEqual(['lock', 'registry-head'])
    const ran = await runHere('restore', folder, '--data', into, '--yes', '--json')
    expect(ran.json()).toMatchObject({ lacks: { from: last + 1, to: last + 1 } })
    // A server starts on it: what it lacks was accepted.
    expect(readFileSync(join(into, 'registry-head'), 'utf8')).toMatch(new RegExp(`^${last} `))
  })

  const flip = (path: string) => {
    const bytes = readFileSync(path)
    bytes[bytes.length - 100]! ^= 1
    writeFileSync(path, bytes)
  }
  const cases: readonly [
    name: string,
    spoil: (copy: string, into: string) => void,
    text: string,
  ][] = [
    ['a copy that was cut short', (copy) => rmSync(join(copy, 'backup.json')), 'has no copy'],
    [
      'half a list',
      (copy) => writeFileSync(join(copy, 'backup.json'), '{}'),
      'damaged backup.json',
    ],
    ['a flipped bit', (copy) => flip(join(copy, 'registry', 'data.mdb')), 'is damaged'],
    [
      'a file that no release has',
      (copy) => {
        const path = join(copy, 'backup.json')
        writeFileSync(path, readFileSync(path, 'utf8').replace('tip-accounts', '../../escape'))
      },
      'a later one',
    ],
    [
      'a folder that is not empty',
      (_, into) => mkdirSync(join(into, 'index')),
      'is not empty: it has index',
    ],
    [
      'a copy of another registry',
      (_, into) => writeFileSync(join(into, 'registry-head'), `1 ${'0'.repeat(64)}\n`),
      'of another registry',
    ],
  ]
  it.each(cases)('is refused: %s', async (_, spoil, text) => {
    const folder = await backup()
    const into = fresh()
    mkdirSync(into)
    spoil(folder, into)
    const before = readdirSync(into)
    const ran = await runHere('restore', folder, '--data', into, '--yes')
    expect(ran.code).toBe(1)
    expect(ran.stderr).toContain(text)
    expect(readdirSync(into).filter((name) => name !== 'lock')).toEqual(before)
  })

  it('is refused for a copy of a later release', async () => {
    const later = fresh()
    cpSync(data, later, { recursive: true })
    writeFileSync(join(later, 'format.json'), '{"format":99,"release":"9.0.0"}\n')
    const folder = fresh()
    expect(await runHere('backup', folder, '--data', later)).toMatchObject({ code: 0 })
    const into = fresh()
    const ran = await runHere('restore', folder, '--data', into)
    expect(ran.code).toBe(1)
    expect(ran.stderr).toContain('written by release 9.0.0')
    expect(readdirSync(into)).toEqual(['lock'])
  })

  it('is refused while a server has the folder', async () => {
    const folder = await backup()
    const into = fresh()
    const locked = await lockData(into)
    if (!locked.ok) throw new Error(locked.refusal.message)
    try {
      const ran = await runCommand(['restore', folder, '--data', into])
      expect(ran.code).toBe(1)
      expect(ran.stderr).toContain('is in use by')
    } finally {
      await locked.value.release()
    }
  })
})
