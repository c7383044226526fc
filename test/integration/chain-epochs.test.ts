// Epochs, sysvars and the validator of the embedded chain across restarts.
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { Commitment } from '../../src/base/commitment.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { nativeMint, programs, stakeConfig, sysvars } from '../../src/chain/solana/programs.ts'
import { Block, epochScheduleOf, packEntries } from '../../src/devnode/ledger/ledger.ts'
import { LedgerState } from '../../src/devnode/ledger/state.ts'
import { ChainStore } from '../../src/devnode/store.ts'
import { readStakeHistory } from '../../src/devnode/sysvars.ts'
import { ChainStage } from '../testkit/chain-stage.ts'

const stages: ChainStage[] = []
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage.dispose()
})

function stageOf(slotsPerEpoch: number): ChainStage {
  const stage = new ChainStage({ slotMs: 20, slotsPerEpoch })
  stages.push(stage)
  return stage
}

const read = ({ chain }: ChainStage, key: Uint8Array) =>
  Buffer.from(chain.ledger.account(key, Commitment.processed)!.data)
const epochStart = (clock: Buffer) => clock.readBigInt64LE(8)
const epochOf = (clock: Buffer) => clock.readBigUInt64LE(16)

test('continues after a restart, with the epochs that it began with', async () => {
  const stage = stageOf(32)
  await stage.start()
  await stage.reached(70, Commitment.confirmed)
  const { supply } = stage.chain.ledger.newest.facts
  await stage.stop()
  Object.assign(stage.section, { slotsPerEpoch: 40 })
  await stage.start()
  const { ledger } = stage.chain
  expect(ledger.epochSchedule.slotsPerEpoch).toBe(32)
  expect(read(stage, sysvars.epochSchedule).readBigUInt64LE(0)).toBe(32n)
  const clock = read(stage, sysvars.clock)
  expect(epochOf(clock)).toBe(BigInt(Math.floor(ledger.stateSlot(0) / 32)))
  if (epochOf(clock) === 2n) expect(epochStart(clock)).toBe(BigInt(ledger.block(64)!.blockTime))
  const history = readStakeHistory(read(stage, sysvars.stakeHistory))
  expect([...history.keys()].slice(-2)).toEqual([1n, 0n])
  expect(history.get(1n)!.effective).toBeGreaterThan(0n)
  await stage.reached(ledger.stateSlot(0), Commitment.confirmed)
  const slots = read(stage, sysvars.slotHistory)
  expect(slots.subarray(9, 17)).toEqual(Buffer.alloc(8, 0xff))
  // Sysvars and votes neither make nor burn lamports.
  expect(ledger.newest.facts.supply).toBe(supply)
  let sum = 0n
  for (const { lamports } of ledger.accounts(Commitment.confirmed)) sum += lamports
  expect(sum).toBe(supply)
})

test('begins with the accounts of a test validator', async () => {
  const stage = stageOf(32)
  await stage.start()
  const { ledger } = stage.chain
  const first = (key: Uint8Array) => ledger.account(key, Commitment.finalized)
  expect(first(nativeMint)).toMatchObject({ lamports: 1_000_000_000n, rentEpoch: 1n })
  expect(first(stakeConfig)).toMatchObject({ lamports: 960_480n, owner: programs.config })
  expect(Buffer.from(first(stakeConfig)!.data).toString('base64')).toBe('AAAAAAAAANA/DA==')
  expect(first(programs.zkElGamalProof)).toMatchObject({ executable: true })
  const [stake] = ledger.accountsByOwner(programs.stake, Commitment.finalized)
  expect(stake!.lamports).toBe(1_000_000n * 10n ** 9n)
})

test('gives a chain of an earlier version a validator and sysvars, once', async () => {
  const stage = stageOf(32)
  await writeEarlierChain(join(stage.folder, 'chain'))
  await stage.start()
  const { ledger } = stage.chain
  expect(ledger.epochSchedule.slotsPerEpoch).toBe(432_000)
  await stage.reached(40, Commitment.confirmed)
  const votes = [...ledger.accountsByOwner(programs.vote, Commitment.processed)]
  expect(votes).toHaveLength(1)
  const supply = ledger.lamports
  await stage.stop()
  await stage.start()
  const again = stage.chain.ledger
  expect([...again.accountsByOwner(programs.vote, Commitment.processed)]).toHaveLength(1)
  expect([...again.accountsByOwner(programs.stake, Commitment.processed)]).toHaveLength(1)
  expect(again.lamports).toBe(supply)
  expect(again.epochSchedule.slotsPerEpoch).toBe(432_000)
})

/** One block and one account: earlier versions kept no sysvars, and had no validator. */
async function writeEarlierChain(path: string): Promise<void> {
  const store = await ChainStore.open(path, {
    isFresh: false,
    release: '0.2.0',
    log: silentLog,
    clock: systemClock,
  })
  const ledger = new LedgerState(
    { genesisHash: 'g', identity: 'i', faucet: 'f', epochSchedule: epochScheduleOf(32) },
    { blocks: 320, bytes: 1 << 20 },
  )
  await store.restore(ledger, () => true)
  const account = {
    pubkey: new Uint8Array(32).fill(5),
    owner: programs.system,
    lamports: 9_000_000n,
    executable: false,
    rentEpoch: 0n,
    data: new Uint8Array(0),
    slot: 0,
    writeVersion: 1n,
  }
  ledger.write(account)
  ledger.mint(account.lamports)
  const facts = {
    slot: 0,
    parentSlot: 0,
    hash: new Uint8Array(32).fill(7),
    parentHash: new Uint8Array(32),
    blockHeight: 0,
    blockTime: 1,
    transactionsTotal: 0,
    supply: ledger.lamports,
  }
  ledger.close(new Block(facts, [], packEntries([])))
  await store.snapshot(ledger)
  await store.close()
}
