import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { Fault } from '../../../../src/base/errors.ts'
import { openStore } from '../../../../src/customers/subscriptions/store.ts'

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-file-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

describe('the registry on disk', () => {
  it.each([
    ['noise', Buffer.alloc(100_000, 7)],
    ['a few bytes', Buffer.from('hello')],
    ['one page of two', Buffer.alloc(4096)],
  ])('refuses a file of %s with a readable error', (_name, bytes) => {
    writeFileSync(join(folder, 'data.mdb'), bytes)
    expect(() => openStore(folder, { clock: systemClock })).toThrow(Fault)
    expect(() => openStore(folder, { clock: systemClock })).toThrow('not a registry')
  })

  it('refuses a folder that cannot be made', () => {
    writeFileSync(join(folder, 'file'), '')
    expect(() => openStore(join(folder, 'file'), { clock: systemClock })).toThrow(Fault)
  })

  it.each(['data.mdb', 'lock.mdb'])('refuses a folder instead of %s', (name) => {
    mkdirSync(join(folder, name))
    expect(() => openStore(folder, { clock: systemClock })).toThrow(Fault)
    expect(() => openStore(folder, { clock: systemClock })).toThrow('is not a file')
  })

  // Root may write everywhere.
  it.runIf(process.getuid?.() !== 0)('names the registry that does not open', () => {
    chmodSync(folder, 0o500)
    const message = `the registry in ${folder} does not open: `
    expect(() => openStore(folder, { clock: systemClock })).toThrow(message)
  })

  it('starts from the empty file that a killed first start may leave', async () => {
    writeFileSync(join(folder, 'data.mdb'), '')
    const store = openStore(folder, { clock: systemClock })
    expect(store.list()).toEqual([])
    await store.close()
    await store.close()
  })

  it('is readable by its owner only', async () => {
    const path = join(folder, 'data', 'registry')
    const store = openStore(path, { clock: systemClock })
    expect(statSync(path).mode & 0o777).toBe(0o700)
    await store.close()
  })
})
