import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Fault } from '../../../src/base/errors.ts'
import { type Converter, prepareFormat } from '../../../src/base/format-file.ts'

let folder: string
let file: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-format-'))
  file = join(folder, 'format.json')
})

afterEach(() => rmSync(folder, { recursive: true }))

const stored = () => JSON.parse(readFileSync(file, 'utf8'))

/** Converters that record the formats they start from. */
function recording(count: number, ran: number[]): Converter[] {
  return Array.from({ length: count }, (_, at) => () => void ran.push(at + 1))
}

describe('the format of a folder', () => {
  test('is 1 where no release wrote a number, and is written', async () => {
    await prepareFormat(folder, '0.3.0', [])
    expect(stored()).toEqual({ format: 1, release: '0.3.0' })
  })

  test('keeps the release that wrote it while the number is the same', async () => {
    await prepareFormat(folder, '0.3.0', [])
    await prepareFormat(folder, '0.4.0', [])
    expect(stored()).toEqual({ format: 1, release: '0.3.0' })
  })

  test('rises by the converters of every number up to the current one, in order', async () => {
    const ran: number[] = []
    await prepareFormat(folder, '0.4.0', recording(3, ran))
    expect(ran).toEqual([1, 2, 3])
    expect(stored()).toEqual({ format: 4, release: '0.4.0' })
    await prepareFormat(folder, '0.5.0', recording(5, ran))
    expect(ran).toEqual([1, 2, 3, 4, 5])
    expect(stored()).toEqual({ format: 6, release: '0.5.0' })
  })

  test('continues after a crash with the converter that did not end', async () => {
    const ran: number[] = []
    const [first, ...others] = recording(3, ran)
    const crash = () => {
      throw new Error('power cut')
    }
    await expect(prepareFormat(folder, '0.4.0', [first!, crash])).rejects.toThrow('power cut')
    expect(stored().format).toBe(2)
    await prepareFormat(folder, '0.4.0', [first!, ...others])
    expect(ran).toEqual([1, 2, 3])
  })

  test('of a later release is refused in one sentence with the file and both numbers', async () => {
    await prepareFormat(folder, '0.9.0', recording(2, []))
    const before = readFileSync(file, 'utf8')
    const ran: number[] = []
    const refused = prepareFormat(folder, '0.3.0', recording(1, ran))
    await expect(refused).rejects.toThrow(Fault)
    await expect(refused).rejects.toThrow(
      `${file} has format 3, written by release 0.9.0; this release, 0.3.0, reads up to format 2`,
    )
    expect(ran).toEqual([])
    expect(readFileSync(file, 'utf8')).toBe(before)
  })

  test.each(['', '{', '[]', '{"format":0,"release":"x"}', '{"format":"2","release":"x"}', 'null'])(
    'is refused where the file is damaged: %s',
    async (text) => {
      writeFileSync(file, text)
      await expect(prepareFormat(folder, '0.3.0', [])).rejects.toThrow(`${file} is damaged`)
      expect(readFileSync(file, 'utf8')).toBe(text)
    },
  )

  test('that cannot be written is a fault', async () => {
    const missing = join(folder, 'missing')
    await expect(prepareFormat(missing, '0.3.0', [])).rejects.toThrow(Fault)
    expect(existsSync(missing)).toBe(false)
  })
})
