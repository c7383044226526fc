// The exits of the server: they end a process whose threads would keep Node's own exit waiting.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { endWithProcess } from '../../testkit/end-with-process.ts'
import { root } from '../../testkit/tree.ts'

const exits = JSON.stringify(join(root, 'dist', 'src', 'base', 'exit.js'))
/** Node's own exit would wait for longer than any test. */
const blockedSeconds = 600

async function endOf(script: string): Promise<unknown[]> {
  const code = `import { exitNow, exitOnBug, exitStopped } from ${exits}\n${script}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { cwd: root })
  // A test that fails must not leave it running.
  endWithProcess(child)
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const [exitCode, signal] = await once(child, 'close')
  return [exitCode, signal, stderr]
}

/** Runs `call` while a worker thread is in a system call that does not return. */
const whileBlocked = (call: string) => `
  import { Worker } from 'node:worker_threads'
  const blocked = \`const sleep = require('koffi').load('libc.so.6').func('uint sleep(uint)')
    require('node:worker_threads').parentPort.postMessage('ready')
    sleep(${blockedSeconds})\`
  new Worker(blocked, { eval: true, execArgv: [] })
    .once('message', () => setTimeout(() => { ${call} }, 1_000))`

test.concurrent('an exit after a bug does not wait for a transaction of LMDB', async () => {
  const path = mkdtempSync(join(tmpdir(), 'sluice-exit-'))
  const script = `
    import { open } from 'lmdb'
    const root = open({ path: ${JSON.stringify(path)} })
    await root.put('key', 1)
    void root.transaction(() => { exitNow(1) })`
  expect(await endOf(script)).toEqual([1, null, ''])
  rmSync(path, { recursive: true })
})

test.concurrent('an uncaught exception ends the process with its stack, whatever its threads do', async () => {
  const [code, signal, stderr] = await endOf(
    whileBlocked(`exitOnBug(); setImmediate(() => { throw new TypeError('a bug of ours') })`),
  )
  expect([code, signal]).toEqual([1, null])
  expect(stderr).toContain('TypeError: a bug of ours')
})

test.concurrent('the exit of a stopped server waits for a blocked thread no longer than its bound', async () => {
  expect((await endOf(whileBlocked('exitStopped(0)'))).slice(0, 2)).toEqual([null, 'SIGALRM'])
  expect(await endOf('exitStopped(3)')).toEqual([3, null, ''])
})
