import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Fault } from '../../../../src/base/errors.ts'
import { makeFolder } from '../../../../src/customers/subscriptions/lock.ts'

let ground: string

beforeEach(() => {
  ground = mkdtempSync(join(tmpdir(), 'sluice-folder-'))
})

afterEach(() => rmSync(ground, { recursive: true }))

describe('a data folder', () => {
  it('is made with its missing parents, accessible to its owner only', () => {
    makeFolder(join(ground, 'a/b/c'))
    makeFolder(join(ground, 'a/b/c'))
    expect(statSync(join(ground, 'a/b')).mode & 0o777).toBe(0o700)
    expect(statSync(join(ground, 'a/b/c')).mode & 0o777).toBe(0o700)
  })

  it('is refused with a readable error where it or a parent is a file', () => {
    const file = join(ground, 'file')
    writeFileSync(file, '')
    expect(() => makeFolder(file)).toThrow('it is a file; set another with --data')
    expect(() => makeFolder(join(file, 'below'))).toThrow(Fault)
  })

  // Node's recursive mkdir never returns from here.
  it.runIf(process.platform === 'linux')('is refused below /proc, at once', () => {
    expect(() => makeFolder('/proc/sluice-data')).toThrow(Fault)
  })
})
