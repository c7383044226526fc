// Finds the Prometheus tools where a machine has them: in the PATH or in SLUICE_TEST_PROMETHEUS_DIR.
// Tests that need them are skipped without them; their names state it.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

export function findTool(name: 'promtool' | 'prometheus'): string | null {
  const folder = process.env.SLUICE_TEST_PROMETHEUS_DIR
  for (const path of folder === undefined ? [name] : [join(folder, name), name])
    if (spawnSync(path, ['--version']).status === 0) return path
  return null
}

/** promtool's lint findings for an exposition; empty for none. */
export function lint(promtool: string, exposition: string): string {
  const { status, stdout, stderr } = spawnSync(promtool, ['check', 'metrics'], {
    input: exposition,
    encoding: 'utf8',
  })
  return status === 0 ? '' : `${stdout}${stderr}`
}
