// This tree beside the newest release: when it counts as slower, and which release that is.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseOptions } from '../../../bench/lib/options.ts'
import { formatSides, isSlower, newestRelease } from '../../../bench/lib/release-check.ts'
import { root } from '../../testkit/tree.ts'

const sides = (release: number[], tree: number[]) => ({ name: 'token-quota', release, tree })

describe('the comparison with the newest release', () => {
  it('fails above 25 % more time for each operation, not at 25 %', () => {
    expect(isSlower(sides([125, 125, 125], [100, 100, 100]))).toBe(false)
    expect(isSlower(sides([125.1, 125.1, 125.1], [100, 100, 100]))).toBe(true)
    expect(isSlower(sides([100, 100, 100], [200, 200, 200]))).toBe(false)
  })

  it('passes where the rounds of both overlap', () => {
    expect(isSlower(sides([300, 200, 150, 150], [10, 100, 110, 149]))).toBe(true)
    expect(isSlower(sides([300, 200, 150, 150], [100, 110, 150, 150]))).toBe(false)
    expect(isSlower(sides([210, 200, 90, 90], [100, 110, 105, 105]))).toBe(false)
  })

  it('is not misled by one disturbed round of a side', () => {
    expect(isSlower(sides([200, 210, 220, 20], [100, 110, 120, 900]))).toBe(true)
  })

  it('prints both sides and the verdict', () => {
    const release = { version: '0.2.0', commit: 'd1ae5a9' }
    const all = [
      sides([2000, 1900, 2100, 1, 9999], [1000, 900, 1100, 1, 9999]),
      sides([10, 10, 10], [10, 10, 10]),
    ]
    const text = formatSides(all, release)
    expect(text).toMatch(/0\.2\.0 \(d1ae5a9\)/)
    expect(text).toMatch(/1,900 \/ 2,000 \/ 2,100 +900 \/ 1,000 \/ 1,100 +x 2\.00 +SLOWER/)
    expect(text).toMatch(/x 1\.00 +ok/)
  })
})

describe('the newest release', () => {
  it('is the first heading with a version, and must name its commit', () => {
    const text = '# C\n\n## Unreleased\n\n## 0.3.0 - 2026-12-01 (abcdef0)\n\n## 0.2.0 (1234567)\n'
    expect(newestRelease(text)).toEqual({ version: '0.3.0', commit: 'abcdef0' })
    expect(newestRelease(text.replace(' (abcdef0)', ''))).toBe(null)
    expect(newestRelease('## Unreleased\n')).toBe(null)
  })

  it('is named with its commit by CHANGELOG.md', () => {
    expect(newestRelease(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'))).not.toBe(null)
  })

  it('has a word on the command line', () => {
    expect(parseOptions(['since-release'])).toEqual({ names: [], sinceRelease: true })
    expect(parseOptions(['since-release', 'ring'])).toBe('since-release takes no names')
  })
})
