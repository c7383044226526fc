// The query engine of a process that has no file descriptors left: queries are refused, the process
// lives, and queries run again when there are descriptors again.
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { root } from '../testkit/tree.ts'
import { hangMs } from '../testkit/until.ts'

test('refuses queries with 301 while no process can be started, and recovers', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-descriptors-'))
  const script = join(root, 'test', 'testkit', 'engine-without-descriptors.mjs')
  const command = 'ulimit -n 128 && exec "$0" "$1" "$2"'
  try {
    const { stdout } = await promisify(execFile)(
      '/bin/sh',
      ['-c', command, process.execPath, script, folder],
      { timeout: 2 * hangMs },
    )
    const { without, after, warnings } = JSON.parse(stdout)
    expect(without).toBe(301)
    expect(after).toBe(0)
    expect(warnings.join()).toContain('spawn /bin/sh EMFILE')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
