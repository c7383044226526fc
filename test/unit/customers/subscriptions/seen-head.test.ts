import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it } from 'vitest'
import { problemOfRegistry, writeSeenHead } from '../../../../src/customers/subscriptions/lock.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-seen-'))
const file = join(folder, 'registry-head')
const head = { seq: 7, hash: 'a'.repeat(64) }
const registry = (...held: string[]) => ({
  holds: ({ hash }: { hash: string }) => held.includes(hash),
})

beforeEach(() => rmSync(file, { force: true }))
afterAll(() => rmSync(folder, { recursive: true }))

it('accepts a registry when none was seen, and one that contains the change seen', () => {
  expect(problemOfRegistry(folder, registry())).toBeNull()
  writeSeenHead(folder, head)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(problemOfRegistry(folder, registry(head.hash))).toBeNull()
})

it('refuses an older copy until the operator removes the file', () => {
  writeSeenHead(folder, head)
  const problem = problemOfRegistry(folder, registry())
  expect(problem).toContain('lacks change 7')
  expect(problem).toContain(`accept this one by removing ${file}`)
  rmSync(file)
  expect(problemOfRegistry(folder, registry())).toBeNull()
})

it('reports a damaged file and does not treat it as absent', () => {
  for (const text of ['', '7', `7 ${'a'.repeat(63)}\n`, `x ${'a'.repeat(64)}\n`]) {
    writeFileSync(file, text)
    expect(() => problemOfRegistry(folder, registry())).toThrow('is damaged')
  }
})
