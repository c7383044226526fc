// A small file system of its own (tmpfs), for tests of a full or read-only disk. Needs root and
// the right to mount: null where that is missing, and the test says that it was skipped.
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
  setReadOnly(isReadOnly: boolean): void
  unmount(): void
}

export function mountSmallDisk(size: string): SmallDisk | null {
  const path = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
  if (!run('mount', '-t', 'tmpfs', '-o', `size=${size},mode=0700`, 'sluice-test', path)) {
    rmdirSync(path)
    return null
  }
  const filler = join(path, 'filler')
  const unmount = () => {
    process.off('exit', unmount)
    if (run('umount', '-l', path)) rmdirSync(path)
  }
  process.once('exit', unmount)
  return {
    path,
    fill: () => writeUntilFull(filler),
    free: () => rmSync(filler, { force: true }),
    setReadOnly: (isReadOnly) => {
      if (!run('mount', '-o', `remount,${isReadOnly ? 'ro' : 'rw'}`, path))
        throw new Error(`${path} cannot be mounted again`)
    },
    unmount,
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
