import { describe, expect, test } from 'vitest'
import { lineOf, ProgressBar } from '../../../../src/operator/commands/output.ts'

describe('ProgressBar', () => {
  test('shows how far a recording is', () => {
    expect(lineOf({ pass: 0, events: 0, eventsTotal: 2000 })).toBe(
      `[${'.'.repeat(30)}] 0 %  0 of 2,000 events`,
    )
    expect(lineOf({ pass: 2, events: 1000, eventsTotal: 2000 })).toBe(
      `[${'#'.repeat(15)}${'.'.repeat(15)}] 50 %  1,000 of 2,000 events, pass 3`,
    )
    expect(lineOf({ pass: 0, events: 0, eventsTotal: 0 })).toContain('100 %')
  })

  test('renders at most ten times a second, the end always, and clears itself for log lines', () => {
    const written: string[] = []
    const bar = new ProgressBar({ write: (text: string) => written.push(text) })
    for (let events = 1; events <= 1000; events++)
      bar.onProgress({ pass: 0, events, eventsTotal: 1000 })
    expect(written.length).toBeLessThan(100)
    expect(written.at(-1)).toContain('100 %')
    bar.clear()
    expect(written.at(-1)).toBe('\r\u001b[K')
    bar.onEnd()
    expect(written.at(-1)).toBe('\r\u001b[K')
  })
})
