import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

test('the generated documents are those of the declarations', () => {
  const script = fileURLToPath(new URL('../../scripts/docs.mjs', import.meta.url))
  const ran = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' })
  expect(ran.stderr).toBe('')
  expect(ran.status).toBe(0)
})
