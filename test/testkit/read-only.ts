// A data folder that cannot be written for a while: modes of files, and a server to which they apply
// although root started it.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** File modes apply to root only without these capabilities. Null where they cannot be dropped. */
export function plainUser(): readonly string[] | null {
  if (process.getuid?.() !== 0) return []
  const none = '-dac_override,-dac_read_search'
  const words = ['setpriv', `--bounding-set=${none}`, `--inh-caps=${none}`]
  const [program, ...rest] = [...words, 'true']
  return spawnSync(program!, rest).status === 0 ? words : null
}

/** Takes the right to write away from a folder and everything in it; gives what gives it back. */
export function makeReadOnly(path: string): () => void {
  const inside = readdirSync(path, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isDirectory() || entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
  const all = [path, ...inside].filter((each) => existsSync(each))
  const modes = all.map((each) => [each, statSync(each).mode & 0o777] as const)
  for (const [each, mode] of modes) chmodSync(each, mode & 0o555)
  return () => {
    // What the server has removed meanwhile needs no mode.
    for (const [each, mode] of modes) if (existsSync(each)) chmodSync(each, mode)
  }
}
