// Many kills at random moments, two processes at a time, on one registry that lives through all.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { openStore } from '../../src/customers/subscriptions/store.ts'
import { acknowledged, checkDone, killParts, runPart } from '../testkit/registry-parts.ts'
import { isSlice } from '../testkit/slice.ts'
import { until } from '../testkit/until.ts'

const kills = isSlice ? 8 : 20
let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-kills-'))
})

afterAll(() => {
  killParts()
  rmSync(folder, { recursive: true, force: true })
})

describe('a registry whose processes are killed again and again', () => {
  it(`loses no acknowledged change in ${kills} kills`, async () => {
    for (let round = 0; round < kills; round++) {
      const prefixes = [`a${round}`, `b${round}`]
      const parts = prefixes.map((prefix) => runPart('provision', folder, prefix, '1000'))
      const killAfter = 1 + Math.floor(Math.random() * 300)
      await until(
        () => parts.some((part) => acknowledged(part) >= killAfter),
        `${killAfter} changes`,
      )
      for (const part of parts) part.child.kill('SIGKILL')
      await until(() => parts.every((part) => part.exited()), 'both to be gone')
      const store = openStore(folder, { clock: systemClock })
      for (const [index, part] of parts.entries()) {
        expect(part.errors()).toBe('')
        checkDone(store, prefixes[index]!, acknowledged(part))
      }
      expect(store.verifyAudit()).toMatchObject({ ok: true, entries: store.version() })
      await store.close()
    }
  })
})
