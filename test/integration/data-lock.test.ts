import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type DataLock, lockData, lockHolder } from '../../src/customers/subscriptions/lock.ts'
import { runCommand } from '../testkit/command.ts'
import { runHere } from '../testkit/run-here.ts'

let folder: string
let held: DataLock[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-lock-'))
  held = []
})

afterEach(async () => {
  for (const lock of held) await lock.release()
  rmSync(folder, { recursive: true, force: true })
})

async function take(): Promise<string> {
  const locked = await lockData(folder)
  if (!locked.ok) return locked.refusal.message
  held.push(locked.value)
  return 'locked'
}

const isRoot = process.getuid?.() === 0

describe('the lock of the data folder', () => {
  it('is a lock on a file of its owner, with the process id in it', async () => {
    expect(await take()).toBe('locked')
    const file = join(folder, 'lock')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readFileSync(file, 'utf8')).toBe(`${process.pid}\n`)
  })

  it('refuses a second server with the process id of the first, until that one stops', async () => {
    expect(await take()).toBe('locked')
    expect(await take()).toBe(`the data folder ${folder} is in use by process ${process.pid}`)
    await held.pop()?.release()
    expect(await take()).toBe('locked')
  })

  it('is not taken by an abstract socket of any name, which has no owner', async () => {
    const { dev, ino } = statSync(folder)
    const squatter = createServer()
    await new Promise<void>((done) => {
      squatter.listen({ path: `\0sluice-data-${dev}-${ino}` }, done)
    })
    try {
      expect(await take()).toBe('locked')
    } finally {
      squatter.close()
    }
  })

  it.runIf(isRoot)('cannot be taken by another user, who may not open the file', async () => {
    expect(await take()).toBe('locked')
    chmodSync(folder, 0o755)
    const open = `require('node:fs').openSync(${JSON.stringify(join(folder, 'lock'))}, 'r')`
    const other = spawnSync(process.execPath, ['-e', open], { uid: 65_534, gid: 65_534 })
    expect(String(other.stderr)).toContain('EACCES')
  })

  it('refuses a file that other users may open, with instructions', async () => {
    const file = join(folder, 'lock')
    writeFileSync(file, '')
    chmodSync(file, 0o644)
    await expect(lockData(folder)).rejects.toThrow(`run chmod 600 ${file}`)
    chmodSync(file, 0o600)
    expect(await take()).toBe('locked')
  })

  it.runIf(isRoot)('refuses a file of another user', async () => {
    const file = join(folder, 'lock')
    writeFileSync(file, '', { mode: 0o600 })
    chownSync(file, 65_534, 65_534)
    await expect(lockData(folder)).rejects.toThrow('belongs to user 65534')
  })
})

describe('whether a server runs', () => {
  it('is read from the lock without taking it', async () => {
    expect(await lockHolder(folder)).toBeNull()
    expect(await take()).toBe('locked')
    expect(await lockHolder(folder)).toEqual({ pid: process.pid })
    await held.pop()?.release()
    // The file is still there; only the lock counts.
    expect(await lockHolder(folder)).toBeNull()
  })

  it('keeps `cluster seed` from copying what a running server goes on counting', async () => {
    expect(await take()).toBe('locked')
    const file = join(folder, 'cluster.yaml')
    writeFileSync(file, 'cluster: { url: "postgres://sluice@127.0.0.1:1/none" }')
    const ran = await runHere('cluster', 'seed', '--config', file, '--data', folder)
    expect(ran.stderr).toContain(`${folder} is in use by process ${process.pid}`)
  })

  it('distinguishes a server that does not answer from no server', async () => {
    const status = () => runCommand(['status', '--data', folder])
    const stopped = await status()
    expect(stopped.stdout).toContain('No server runs')
    expect(await take()).toBe('locked')
    const starting = await status()
    expect(starting.code).toBe(1)
    expect(starting.stderr).toContain(`process ${process.pid} uses the data folder`)
  })
})
