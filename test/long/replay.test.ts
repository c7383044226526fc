// `sluice replay`: a recording through the whole service to the terminal.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runCommand } from '../testkit/command.ts'
import { realData } from '../testkit/real-data.ts'

const recording = realData('execution/emn-30b-15m.snapshot.zst')

describe.skipIf(recording.isMissing)(recording.title('sluice replay of the real recording'), () => {
  // TPS at each BlockStart of the recording, worked out by hand from its transaction counts.
  const tps = [
    0, 114, 298, 459, 412, 493, 549, 607, 681, 968, 1051, 879, 620, 728, 414, 387, 671, 726, 515,
    357, 434, 343, 331, 328, 238, 283, 292, 222, 507, 630,
  ]

  test('prints the TPS of every block', async () => {
    const ran = await runCommand(['replay', recording.path, '--topic', 'tps', '--output', 'json'])
    expect(ran.stderr).toBe('')
    const lines = ran.stdout.trim().split('\n')
    expect(lines.map((line) => (JSON.parse(line) as { TPS: number }).TPS)).toEqual(tps)
    expect(ran.code).toBe(0)
  })

  test('gives the same bytes in two runs, and leaves no files', async () => {
    const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith('sluice-replay-'))
    const before = folders()
    const runs = [
      await runCommand(['replay', recording.path]),
      await runCommand(['replay', recording.path]),
    ]
    expect(runs[0]?.stdout).toBe(runs[1]?.stdout)
    expect(runs[0]?.stdout.split('\n')).toHaveLength(31)
    expect(runs[0]?.stdout).toContain('block 15000023  txns 23')
    expect(runs[0]?.stdout).toContain('70 to 90: some contention bottlenecks')
    expect(folders()).toEqual(before)
  })
})

test('a file that is no recording is refused with the reason', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-no-recording-'))
  const path = join(folder, 'noise')
  writeFileSync(path, 'noise')
  const ran = await runCommand(['replay', path])
  expect(ran.stderr).toContain('the recording cannot be replayed')
  expect(ran.code).toBe(1)
  expect((await runCommand(['replay', join(folder, 'absent')])).code).toBe(3)
  rmSync(folder, { recursive: true })
})
