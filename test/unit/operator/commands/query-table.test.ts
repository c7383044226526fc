import { describe, expect, test } from 'vitest'
import { renderTable } from '../../../../src/operator/commands/query.ts'

describe('a result as a table', () => {
  test('puts numbers to the right, cuts long cells and keeps the terminal safe', () => {
    const text = renderTable({
      meta: [
        { name: 'slot', type: 'UInt64' },
        { name: 'name', type: 'String' },
        { name: 'list', type: 'Array(String)' },
      ],
      data: [
        ['12345', 'a\x1b[31m\nb', ['x']],
        [7, null, []],
        [0, 'y'.repeat(200), []],
      ],
    })
    const lines = text.split('\n')
    expect(lines[0]).toMatch(/^ slot {2}name {78}list$/)
    expect(lines[1]).toMatch(/^-{5} {2}-{80} {2}-{5}$/)
    expect(lines[2]).toMatch(/^12345 {2}a\?\[31m b +\["x"\]$/)
    expect(lines[3]).toMatch(/^ {4}7 {2}NULL +\[\]$/)
    expect(lines[4]).toContain(`${'y'.repeat(79)}…`)
  })

  test('is nothing for a result without columns', () => {
    expect(renderTable({ meta: [], data: [] })).toBe('')
  })
})
