// Benches and `--target`: each load bench takes it or says why not.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { isTargetDecided, whyNoTarget } from '../../../bench/lib/targets.ts'

const folder = join(import.meta.dirname, '../../../bench/load')
const names = readdirSync(folder)
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replace(/\.ts$/, ''))

describe('--target of the benches', () => {
  it('is taken or refused with a reason by every load bench', () => {
    expect(names.length).toBeGreaterThan(20)
    expect(names.filter((name) => !isTargetDecided(name))).toEqual([])
  })

  it('is taken by the rpc benches and refused by functions', () => {
    expect(whyNoTarget('rpc-endpoint')).toBe(undefined)
    expect(whyNoTarget('ring')).toMatch(/single functions/)
    expect(whyNoTarget('tpu')).toMatch(/CPU time/)
  })
})
