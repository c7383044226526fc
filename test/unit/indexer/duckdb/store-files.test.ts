// The folder of the index is listed while files come and go.
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { hotName, listFolder } from '../../../../src/indexer/duckdb/store-files.ts'

test('a log that disappears while the folder is listed is no error', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-files-'))
  await writeFile(join(folder, hotName(2)), '')
  // Listed, and missing when it is opened.
  await symlink(join(folder, 'gone'), join(folder, `${hotName(2)}.wal`))
  expect(await listFolder(folder)).toEqual({ hot: [2], sealed: [], obsolete: [] })
  await rm(folder, { recursive: true, force: true })
})
