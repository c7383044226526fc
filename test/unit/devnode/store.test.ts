import { mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/base/clock.ts'
import type { Block } from '../../../src/devnode/ledger/block.ts'
import type { LedgerState } from '../../../src/devnode/ledger/state.ts'
import { ChainStore } from '../../../src/devnode/store.ts'
import { silentLog } from '../../../src/telemetry/log.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-chain-store-'))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function blockAt(slot: number): Block {
  // Reason for the cast: a journal reads nothing else of a block.
  return { slot, pack: () => new Uint8Array(64) } as unknown as Block
}

/** Descriptors of this process that stand for the device on which every write fails. */
function openOnFullDevice(): number {
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === '/dev/full'
    } catch {
      return false
    }
  }).length
}

test('a journal that the disk refused is given up and its file is closed', async () => {
  const store = await ChainStore.open(folder, {
    isFresh: false,
    log: silentLog,
    clock: systemClock,
  })
  symlinkSync('/dev/full', join(folder, 'journal-7'))
  // Reason for the cast: a snapshot of an empty ledger reads nothing else of it.
  const ledger = {
    newest: blockAt(7),
    accountsAt: () => [],
    firstAvailableSlot: 0,
  } as unknown as LedgerState
  await store.snapshot(ledger)
  expect(openOnFullDevice()).toBe(1)
  // Its first block was refused; with the next one the store gives it up.
  store.append(blockAt(8), [])
  await store.close()
  expect(openOnFullDevice()).toBe(0)
})
