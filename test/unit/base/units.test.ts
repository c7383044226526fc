// Quantities with a unit: parsed, formatted, refused; and the fields that accept them.
import { describe, expect, it } from 'vitest'
import { integer, number } from '../../../src/base/fields.ts'
import { exampleOf, formatQuantity, parseQuantity, type Unit } from '../../../src/base/units.ts'

describe('a quantity', () => {
  it.each<[string, Unit, number]>([
    ['16MiB', 'bytes', 16_777_216],
    ['64 kB', 'bytes', 64_000],
    ['1.5GiB', 'bytes', 1_610_612_736],
    ['0B', 'bytes', 0],
    ['30s', 'ms', 30_000],
    ['1h30m', 'ms', 5_400_000],
    ['250ms', 'ms', 250],
    ['7d', 'days', 7],
    ['12h', 'days', 0.5],
    ['250Mbit/s', 'Mbit/s', 250],
    ['1.5Gbit/s', 'Mbit/s', 1_500],
    ['100kbit/s', 'Mbit/s', 0.1],
  ])('%s is that many %s', (text, unit, value) => {
    expect(parseQuantity(text, unit)).toBe(value)
    expect(parseQuantity(formatQuantity(value, unit), unit)).toBe(value)
  })

  it.each<[string, Unit]>([
    ['16', 'bytes'],
    ['16 mib', 'bytes'],
    ['16MiB/s', 'bytes'],
    ['-1MiB', 'bytes'],
    ['1e3B', 'bytes'],
    ['constructor', 'bytes'],
    ['1constructor', 'bytes'],
    ['30', 'ms'],
    ['s', 'ms'],
    ['250Mbit', 'Mbit/s'],
    ['250MiB', 'Mbit/s'],
    ['', 'ms'],
  ])('%s is none of %s', (text, unit) => {
    expect(parseQuantity(text, unit)).toBeNull()
  })

  it('is formatted in the shortest exact form', () => {
    expect(formatQuantity(16_777_216, 'bytes')).toBe('16MiB')
    expect(formatQuantity(64_000, 'bytes')).toBe('64kB')
    expect(formatQuantity(51_201, 'bytes')).toBe('51201B')
    expect(formatQuantity(90_000, 'ms')).toBe('1m30s')
    expect(formatQuantity(250, 'Mbit/s')).toBe('250Mbit/s')
    expect(exampleOf('credits')).toBeNull()
  })
})

describe('a field with a unit', () => {
  const size = integer({ initial: 1, min: 1, max: 1 << 30, unit: 'bytes', doc: 'A size.' })

  it('accepts a plain number, digits and text with a unit', () => {
    for (const raw of [16_777_216, '16777216', '16MiB'])
      expect(size.parse(raw)).toEqual({ ok: true, value: 16_777_216 })
    expect(size.show?.(16_777_216)).toBe('16MiB')
  })

  it('refuses fractions of an integer, other units and values out of bounds', () => {
    const wrong = { ok: false, problem: 'must be an integer of bytes, or as 16MiB' }
    for (const raw of ['0.3B', '30s', 'much', true, null]) expect(size.parse(raw)).toEqual(wrong)
    expect(size.parse('2GiB')).toEqual({ ok: false, problem: `must be 1 to ${1 << 30}` })
  })

  it('accepts fractions unless it is an integer', () => {
    const rate = number({ initial: 1, min: 0, max: 1_000, unit: 'Mbit/s', doc: 'A rate.' })
    expect(rate.parse('500kbit/s')).toEqual({ ok: true, value: 0.5 })
  })

  it('accepts plain numbers only where the unit has no text form', () => {
    const credits = integer({ initial: 1, min: 1, max: 9, unit: 'credits', doc: 'Credits.' })
    expect(credits.parse('5s')).toEqual({ ok: false, problem: 'must be an integer' })
    expect(credits.show).toBeUndefined()
  })
})
