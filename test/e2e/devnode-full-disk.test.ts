// `sluice devnode` on a disk that takes no more: the chain goes on, without history and journal.
// Afterwards nothing that was seen comes again with another content.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Devnode, devnodeWords, startDevnode } from '../testkit/devnode.ts'
import { canMount, mountSmallDisk, type SmallDisk } from '../testkit/small-disk.ts'
import { until } from '../testkit/until.ts'

/** Blocks of 1,024 bytes that a file may have: the archive's file is larger soon. */
const fileBlocksMax = 1_000

it('goes on when the disk takes no more of its history', async () => {
  const ledger = mkdtempSync(join(tmpdir(), 'sluice-full-'))
  const flags = [`--ledger=${ledger}`, '--rpc-port=0', '--grpc-port=0', '--slot-ms=40']
  const words = [process.execPath, ...devnodeWords(...flags, '--traffic=200')]
  const script = `ulimit -f ${fileBlocksMax}; exec "$@"`
  const child = spawn('bash', ['-c', script, 'bash', ...words], { stdio: 'pipe' })
  process.once('exit', () => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
  try {
    const isFull = () => {
      const ended = child.exitCode ?? child.signalCode
      if (ended !== null) throw new Error(`ended with ${ended}`)
      return output.includes('history write failed') && /^grpc/m.test(output)
    }
    await until(isFull, 'a full disk').catch((error: Error) => {
      throw new Error(`${error.message}\n${output}`)
    })
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
})

describe.skipIf(!canMount())('after a full disk', () => {
  let disk: SmallDisk
  let node: Devnode
  const start = async () => {
    node = await startDevnode({ ledger: disk.path, slotMs: 40, flags: ['--traffic=20'] })
  }
  beforeEach(async () => {
    disk = mountSmallDisk('64m')
    await start()
  })
  afterEach(async () => {
    await node?.stop()
    disk.unmount()
  })

  // biome-ignore lint/suspicious/noExplicitAny: a test looks at whatever came
  async function call(method: string, ...params: unknown[]): Promise<any> {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const answer = await fetch(node.url('rpc'), { method: 'POST', headers, body })
    return ((await answer.json()) as { result: unknown }).result
  }

  const newest = (): Promise<number> => call('getSlot', { commitment: 'processed' })

  async function slotsPass(count: number): Promise<void> {
    const from = await newest()
    await until(async () => (await newest()) >= from + count, `${count} slots`)
  }

  /** Blockhashes by slot, as a customer saw them. */
  async function blocks(): Promise<Map<number, string>> {
    const found = new Map<number, string>()
    const confirmed = { commitment: 'confirmed' }
    for (const slot of (await call('getBlocks', 1, null, confirmed)) as number[]) {
      const shown = { ...confirmed, transactionDetails: 'none', rewards: false }
      found.set(slot, (await call('getBlock', slot, shown)).blockhash)
    }
    return found
  }

  /** The chain loses its journal; its disk stays full. Returns what was there then. */
  async function fillDisk(): Promise<Map<number, string>> {
    await slotsPass(5)
    disk.fill()
    await until(() => node.stderr().includes('chain journal write failed'), 'a fault')
    await slotsPass(10)
    return blocks()
  }

  it('goes on after the slots that were seen where their blocks are lost', async () => {
    const seen = await fillDisk()
    await node.stop()
    disk.free()
    await start()
    await slotsPass(2)
    const after = await blocks()
    const last = Math.max(...seen.keys())
    for (const [slot, hash] of after)
      if (slot <= last) expect(seen.get(slot), `slot ${slot}`).toBe(hash)
    expect(node.stderr()).toContain('the disk has not all blocks')
    expect(await newest()).toBeGreaterThan(last)
  })
})
