// `sluice devnode` on a disk that takes no more: the chain goes on, without history and journal.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { devnodeWords } from '../testkit/devnode.ts'
import { startDeadlineMs } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

/** Blocks of 1,024 bytes that a file may have: the archive's file is larger soon. */
const fileBlocksMax = 1_000

it('goes on when the disk takes no more of its history', async () => {
  const ledger = mkdtempSync(join(tmpdir(), 'sluice-full-'))
  const flags = [`--ledger=${ledger}`, '--rpc-port=0', '--grpc-port=0', '--slot-ms=40']
  const words = [process.execPath, ...devnodeWords(...flags, '--traffic=500')]
  const script = `ulimit -f ${fileBlocksMax}; exec "$@"`
  const child = spawn('bash', ['-c', script, 'bash', ...words], { stdio: 'pipe' })
  process.once('exit', () => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
  try {
    const isFull = () => output.includes('history write failed') && /^grpc/m.test(output)
    await until(isFull, 'a full disk', startDeadlineMs)
    const url = /^rpc +(\S+)$/m.exec(output)![1]!
    const call = async (method: string, ...params: unknown[]) => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
      const headers = { 'content-type': 'application/json' }
      // biome-ignore lint/suspicious/noExplicitAny: a test looks at whatever came
      return ((await (await fetch(url, { method: 'POST', headers, body })).json()) as any).result
    }
    const slot = await call('getSlot', { commitment: 'processed' })
    const later = () => call('getSlot', { commitment: 'processed' })
    await until(async () => (await later()) > slot + 20, 'later slots')
    expect(await call('getFirstAvailableBlock')).toBe(0)
    expect(output).not.toContain('component died')
  } finally {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
    rmSync(ledger, { recursive: true, force: true })
  }
}, 120_000)
