import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { lockFolder } from '../../../../src/operator/topology/state.ts'

let data: string

beforeEach(() => {
  data = mkdtempSync(join(tmpdir(), 'sluice-state-'))
})

afterEach(() => rmSync(data, { recursive: true }))

test('a data folder of a later release is refused untouched, and its lock is released', async () => {
  const file = join(data, 'format.json')
  writeFileSync(file, '{"format":9,"release":"4.0.0","more":true}\n')
  await expect(lockFolder({ data, version: '0.2.0' })).rejects.toThrow(
    `${file} has format 9, written by release 4.0.0; this release, 0.2.0, reads up to format 1`,
  )
  expect(readdirSync(data).sort()).toEqual(['format.json', 'lock'])
  rmSync(file)
  const locked = await lockFolder({ data, version: '0.2.0' })
  expect(readdirSync(data).sort()).toEqual(['format.json', 'lock'])
  await locked.stop()
})
