import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { Block, epochScheduleOf, packEntries } from '../../../src/devnode/ledger/ledger.ts'
import { LedgerState } from '../../../src/devnode/ledger/state.ts'
import { ChainStore } from '../../../src/devnode/store.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-chain-store-'))
const chain = () => join(folder, 'chain')
let nowMs = 0
const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
const deps = { release: '0.2.0', log: silentLog, clock }
let ledger: LedgerState
let store: ChainStore
beforeEach(async () => {
  ledger = ledgerOf()
  store = await ChainStore.open(chain(), { ...deps, isFresh: true })
})
afterEach(() => rmSync(chain(), { recursive: true, force: true }))

function ledgerOf(): LedgerState {
  const epochSchedule = epochScheduleOf(432_000)
  const identity = { genesisHash: 'g', identity: 'i', faucet: 'f', epochSchedule }
  return new LedgerState(identity, { blocks: 1_000, bytes: 2 ** 30 })
}

const hash = (slot: number) => new Uint8Array(32).fill(slot)
const account = (slot: number) => ({
  pubkey: hash(200),
  lamports: BigInt(slot + 1),
  owner: hash(201),
  executable: false,
  rentEpoch: 0n,
  data: new Uint8Array(0),
  slot,
  writeVersion: BigInt(slot),
})

/** Completes the block of a slot, with an account that has one lamport more than that. */
function end(slot: number): void {
  const parentSlot = Math.max(0, slot - 1)
  const facts = {
    slot,
    parentSlot,
    hash: hash(slot),
    parentHash: hash(parentSlot),
    blockHeight: slot,
    blockTime: 1,
    transactionsTotal: 0,
    supply: 0n,
  }
  ledger.write(account(slot))
  ledger.close(new Block(facts, [], packEntries([])))
  ledger.confirm(slot)
  store.append(ledger.newest, ledger.writtenIn(slot))
}

/** Every write into the file fails, as on a full disk. */
function refuse(name: string): void {
  symlinkSync('/dev/full', join(chain(), name))
}

/** What another process reads from the folder. */
async function restored(
  path = chain(),
): Promise<{ newest: number; lamports: bigint; seen: number }> {
  const again = ledgerOf()
  const reader = await ChainStore.open(path, { ...deps, isFresh: false })
  await reader.restore(again, () => true)
  const { seenSlot: seen } = reader
  await reader.close()
  const lamports = again.newestAccount(hash(200))!.lamports
  return { newest: again.newest.slot, lamports, seen }
}

function files(kind: string): string[] {
  return readdirSync(chain()).filter((name) => name.startsWith(kind))
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

/** The chain is at slot 2, and its journal was refused. */
async function loseJournal(): Promise<void> {
  refuse('journal-0')
  end(0)
  await store.snapshot(ledger)
  end(1)
  end(2)
}

test('blocks and accounts are there again, and a snapshot is due after enough slots', async () => {
  end(0)
  await store.snapshot(ledger)
  for (const slot of [1, 2, 3]) end(slot)
  expect([store.isSnapshotDue(4), store.isSnapshotDue(3)]).toEqual([false, true])
  await store.close(ledger)
  expect(await restored()).toEqual({ newest: 3, lamports: 4n, seen: 3 })
})

test('a block is on disk as soon as it is complete: kill -9 does not lose it', async () => {
  end(0)
  await store.snapshot(ledger)
  for (const slot of [1, 2, 3]) {
    end(slot)
    const copy = join(folder, `killed-${slot}`)
    cpSync(chain(), copy, { recursive: true })
    expect(await restored(copy)).toEqual({ newest: slot, lamports: BigInt(slot + 1), seen: slot })
  }
  await store.close()
})

test('a chain that is killed before its first slot ends, again and again, is whole', async () => {
  end(0)
  await store.snapshot(ledger)
  await store.close()
  for (let kill = 0; kill < 3; kill++)
    expect(await restored()).toEqual({ newest: 0, lamports: 1n, seen: 0 })
  // The last one died while it wrote the next block.
  appendFileSync(join(chain(), 'journal-0'), 'torn')
  const again = await ChainStore.open(chain(), { ...deps, isFresh: false })
  await again.restore(ledgerOf(), () => true)
  store = again
  end(1)
  await store.close()
  expect(await restored()).toEqual({ newest: 1, lamports: 2n, seen: 1 })
})

describe('a journal that the disk refused', () => {
  test('is given up with its first block and its file is closed', async () => {
    refuse('journal-0')
    end(0)
    await store.snapshot(ledger)
    nowMs += 1_000
    expect(store.isSnapshotDue(1_500)).toBe(true)
    await store.close()
    expect(openOnFullDevice()).toBe(0)
  })

  test('is tried again every second, and a try that fails leaves no file', async () => {
    await loseJournal()
    expect(store.isSnapshotDue(1_500)).toBe(false)
    nowMs += 1_000
    expect(store.isSnapshotDue(1_500)).toBe(true)
    refuse('unfinished-2')
    await store.snapshot(ledger)
    expect([...files('unfinished'), ...files('snapshot')]).toEqual(['snapshot-0'])
    expect(existsSync(join(chain(), 'journal-2'))).toBe(false)
    expect(store.isSnapshotDue(1_500)).toBe(false)
    end(3)
    nowMs += 1_000
    expect(store.isSnapshotDue(1_500)).toBe(true)
    await store.snapshot(ledger)
    expect([...files('snapshot'), ...files('journal')]).toEqual(['snapshot-3', 'journal-3'])
    end(4)
    expect(store.isSnapshotDue(1_500)).toBe(false)
    await store.close()
    expect(await restored()).toEqual({ newest: 4, lamports: 5n, seen: 4 })
  })

  test('loses no block that comes while the next one is opened', async () => {
    await loseJournal()
    const snapshot = store.snapshot(ledger)
    end(3)
    end(4)
    await snapshot
    end(5)
    await store.close()
    expect(await restored()).toEqual({ newest: 5, lamports: 6n, seen: 5 })
  })

  test('costs nothing at a stop when the disk takes a snapshot', async () => {
    await loseJournal()
    await store.close(ledger)
    expect(await restored()).toEqual({ newest: 2, lamports: 3n, seen: 2 })
  })

  test('is noticed at a stop, also when no block followed', async () => {
    refuse('journal-0')
    end(0)
    await store.snapshot(ledger)
    rmSync(join(chain(), 'journal-0'))
    await store.close(ledger)
    expect(await restored()).toEqual({ newest: 0, lamports: 1n, seen: 0 })
  })

  test('leaves the newest slot that was seen, though its block is lost', async () => {
    end(0)
    await store.snapshot(ledger)
    end(1)
    refuse('journal-1')
    await store.snapshot(ledger)
    for (const slot of [2, 3, 4]) end(slot)
    refuse('unfinished-4')
    await store.close(ledger)
    rmSync(join(chain(), 'journal-1'), { force: true })
    expect(await restored()).toMatchObject({ newest: 1, seen: 4 })
  })
})

test('a chain of a later format is refused untouched, and dropped only with isFresh', async () => {
  const file = join(chain(), 'format.json')
  const before = readdirSync(chain())
  writeFileSync(file, '{"format":2,"release":"4.0.0"}\n')
  await expect(ChainStore.open(chain(), { ...deps, isFresh: false })).rejects.toThrow(
    `${file} has format 2, written by release 4.0.0; this release, 0.2.0, reads up to format 1`,
  )
  expect(readdirSync(chain())).toEqual(before)
  await (await ChainStore.open(chain(), { ...deps, isFresh: true })).close()
  expect(readFileSync(file, 'utf8')).toBe('{"format":1,"release":"0.2.0"}\n')
})
