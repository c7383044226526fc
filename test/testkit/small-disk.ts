// A small file system of its own (tmpfs), for tests of a full disk. Needs root and
// the right to mount (`canMount`); a test without it reports that it was skipped.
import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface SmallDisk {
  readonly path: string
  /** Takes every free byte. */
  fill(): void
  /** Gives them back. */
  free(): void
  unmount(): void
}

/** Whether this process may mount; asked while tests are collected. */
export function canMount(): boolean {
  const path = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
  const isMounted = run('mount', '-t', 'tmpfs', 'sluice-test', path)
  if (isMounted) run('umount', path)
  rmdirSync(path)
  return isMounted
}

export function mountSmallDisk(size: string): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
  if (!run('mount', '-t', 'tmpfs', '-o', `size=${size},mode=0700`, 'sluice-test', path))
    throw new Error(`no file system can be mounted on ${path}`)
  const filler = join(path, 'filler')
  return {
    path,
    fill: () => writeUntilFull(filler),
    free: () => rmSync(filler, { force: true }),
    unmount: () => {
      if (run('umount', '-l', path)) rmdirSync(path)
    },
  }
}

function writeUntilFull(file: string): void {
  const fd = openSync(file, 'a', 0o600)
  try {
    for (const bytes of [1 << 20, 4096, 1]) fillBy(fd, Buffer.alloc(bytes))
  } finally {
    closeSync(fd)
  }
}

function fillBy(fd: number, chunk: Buffer): void {
  try {
    while (writeSync(fd, chunk) > 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}

function run(command: string, ...words: string[]): boolean {
  return spawnSync(command, words, { stdio: 'ignore' }).status === 0
}
