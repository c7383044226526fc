import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { ByteReader, ByteWriter } from '../../../src/devnode/ledger/bytes.ts'
import { RecordFileWriter, readRecords } from '../../../src/devnode/store.ts'
import { canMount, mountSmallDisk } from '../../testkit/small-disk.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-records-'))
afterAll(() => rmSync(folder, { recursive: true }))

async function recordsOf(path: string): Promise<string[]> {
  const found: string[] = []
  for await (const record of readRecords(path)) found.push(record.toString())
  return found
}

describe('a file of records', () => {
  it('returns what was written, and nothing after a truncated or corrupt record', async () => {
    const path = join(folder, 'records')
    const writer = await RecordFileWriter.create(path)
    const texts = ['first', 'second', '', 'x'.repeat(100_000)]
    for (const text of texts) writer.append(Buffer.from(text))
    await writer.close()
    expect(await recordsOf(path)).toEqual(texts)
    const whole = readFileSync(path)
    for (const length of [0, 3, 8, 12, 13, 20, 27, 35, whole.length - 1]) {
      writeFileSync(path, whole.subarray(0, length))
      const left = await recordsOf(path)
      expect(texts.slice(0, left.length)).toEqual(left)
      expect(left.length).toBeLessThan(texts.length)
    }
    const rotten = Buffer.from(whole)
    rotten[8 + 5 + 8]! ^= 4
    writeFileSync(path, rotten)
    expect(await recordsOf(path)).toEqual(['first'])
  })
})

describe('a disk that fills up', () => {
  it.skipIf(!canMount())('ends the file at its last whole record', async () => {
    const disk = mountSmallDisk('64k')
    try {
      const path = join(disk.path, 'records')
      const writer = await RecordFileWriter.create(path)
      // The last of these finds room for a piece of itself.
      const text = 'x'.repeat(10_000)
      for (let count = 0; count < 7; count++) writer.append(Buffer.from(text))
      expect(writer.fault).toMatchObject({ code: 'ENOSPC' })
      await expect(writer.close()).rejects.toMatchObject({ code: 'ENOSPC' })
      expect(await recordsOf(path)).toEqual(new Array(6).fill(text))
    } finally {
      disk.unmount()
    }
  })
})

describe('bytes of a record', () => {
  it('are read as they were written', () => {
    const writer = new ByteWriter()
    writer
      .u8(7)
      .u32(4_000_000_000)
      .u64(2n ** 64n - 1n)
      .number(2 ** 52)
    writer.text('größer').bytes(new Uint8Array(9_000).fill(1))
    writer.each([1, 2, 3], (value) => writer.u8(value))
    const reader = new ByteReader(writer.take())
    expect([reader.u8(), reader.u32()]).toEqual([7, 4_000_000_000])
    expect([reader.u64(), reader.number()]).toEqual([2n ** 64n - 1n, 2 ** 52])
    expect(reader.text()).toBe('größer')
    expect(reader.bytes()).toHaveLength(9_000)
    expect(reader.each(() => reader.u8())).toEqual([1, 2, 3])
    expect(reader.isAtEnd).toBe(true)
  })
})
