// Starts the devnode's chain and stops it. Thread: main of the devnode.
//
//   store (disk) -> ledger -> VM;  slot clock -> producer -> ledger, sink;  chain <- traffic
import { join } from 'node:path'
import type { Clock } from '../base/clock.ts'
import { Fault, messageOf } from '../base/errors.ts'
import type { Log } from '../base/telemetry/log.ts'
import { encodeBase58, isSameKey, keyOf } from '../chain/solana/base58.ts'
import type { AccountContent } from '../chain/solana/geyser-decode.ts'
import { sysvars } from '../chain/solana/programs.ts'
import { slotStatus } from '../chain/solana/updates.ts'
import { writeLocks } from '../chain/solana/write-locks.ts'
import { CheatCodes, LocalChain } from './chain.ts'
import { airdropAny, type ChainSection, recentBlocks, recentBytes } from './config.ts'
import type { ChainKeys } from './genesis.ts'
import {
  clusterAccounts,
  genesisAccounts,
  keysOf,
  trafficAccounts,
  vmPrograms,
  vmSysvars,
} from './genesis.ts'
import { type Genesis, type GenesisInput, readGenesis, slotAt } from './genesis-input.ts'
import { versionOf } from './landing.ts'
import { Archive } from './ledger/archive.ts'
import type { LedgerAccount, LedgerTransaction } from './ledger/ledger.ts'
import { Block, epochScheduleOf, packEntries } from './ledger/ledger.ts'
import { LedgerState } from './ledger/state.ts'
import type { ChainCounters } from './meters.ts'
import { Producer, plainRules, SlotClock, type SlotRules } from './producer.ts'
import { reportBlock, type SolanaSink } from './sink.ts'
import { ChainStore, type RestoredBlock } from './store.ts'
import { Svm, type VmAccount } from './svm.ts'
import { slotsPerEpochOf, sysvarAccount } from './sysvars.ts'
import { Traffic } from './traffic.ts'

export interface EmbeddedDeps {
  /** Folder of the chain's state. */
  readonly path: string
  /** Drops that state first. */
  readonly isFresh: boolean
  /** The version of the package. */
  readonly release: string
  /** What a new chain begins with besides its own accounts; an existing one ignores it. */
  readonly genesis?: GenesisInput | null
  /** Slot to continue at, or the URL of the node whose slot it is. */
  readonly warpSlot?: number | string | null
  readonly sink: SolanaSink
  /** Of the keys of a new chain; random by default. */
  readonly seed?: Uint8Array | null
  /** Called with the seed of the chain's keys before anything is published: what changes slots. */
  begin?(seed: Uint8Array): ChainScript
  readonly counters: ChainCounters
  readonly clock: Clock
  readonly log: Log
}

/** What a script changes about the chain's slots. */
export interface ChainScript {
  readonly plan: SlotRules
  /** Called once per slot time: whether the open slot ends. */
  isDue(): boolean
}

export interface RunningChain {
  readonly chain: LocalChain
  readonly cheats: CheatCodes
  /** All keys of the chain are derived from it. */
  readonly seed: Uint8Array
  /** Begins the traffic that the section asks for. */
  startTraffic(): void
  stop(): Promise<void>
}

export async function startEmbeddedChain(
  section: Omit<ChainSection, 'source'>,
  deps: EmbeddedDeps,
): Promise<RunningChain> {
  const { clock, log, counters, sink, isFresh, release } = deps
  const svm = new Svm()
  const builtins = new Map(
    svm.genesis(vmPrograms).map((account) => [keyOf(account.pubkey), account]),
  )
  const genesis = await genesisOf(svm, deps)
  const warpSlot = await warpSlotOf(deps)
  const { seed = null } = deps
  const store = await ChainStore.open(deps.path, { isFresh, release, log, clock, seed })
  const script = deps.begin?.(store.seed) ?? null
  const archive = archiveIn(deps, section)
  const keys = keysOf(store.seed)
  const ledger = new LedgerState(
    {
      genesisHash: encodeBase58(keys.genesisHash),
      identity: encodeBase58(keys.identity),
      faucet: encodeBase58(keys.faucet.publicKey),
      epochSchedule: epochScheduleOf(section.slotsPerEpoch),
    },
    { blocks: Math.min(recentBlocks, section.historySlots), bytes: recentBytes },
    archive,
  )
  // Before anyone reads the sink's hub and before the next slot opens: a replay is in order.
  const hasTraffic = section.traffic > 0
  publishRestored(
    await restore(store, ledger, { archive, svm, builtins, genesis, keys, hasTraffic, clock, log }),
    sink,
  )
  if (ledger.epochSchedule.slotsPerEpoch !== section.slotsPerEpoch)
    log.warn('the chain keeps the slots per epoch that it began with', {
      slotsPerEpoch: ledger.epochSchedule.slotsPerEpoch,
    })
  const writeVm = (accounts: readonly VmAccount[]) => svm.load(accounts)
  const { slot: kept } = ledger.newest
  const seen = Math.max(kept, store.seenSlot)
  if (seen > kept)
    log.warn('the disk has not all blocks: the chain goes on after the slots that were seen', {
      kept,
      seen,
    })
  const rules = script?.plan ?? plainRules
  const keep = (block: Block) => {
    store.append(block, ledger.writtenIn(block.slot))
    if (store.isSnapshotDue(section.snapshotSlots))
      void store.snapshot(ledger, counters.snapshotSeconds)
  }
  const { vote } = keys
  const producer = new Producer({ ledger, sink, clock, vote, writeVm, seen, rules, keep })
  const { airdropLamports } = section
  const airdropLamportsMax = airdropLamports === airdropAny ? null : BigInt(airdropLamports)
  const chain = new LocalChain({ ledger, svm, producer, keys, counters, airdropLamportsMax })
  const traffic = new Traffic(chain, { keys, perSecond: section.traffic, clock })
  const slots = new SlotClock(section.slotMs, clock, () => {
    if (script?.isDue() ?? true) producer.endSlot()
  })
  const first = async () => [...builtins.values(), ...(await store.genesisAccounts())]
  const { slotMs } = section
  const cheats = new CheatCodes({ ledger, svm, producer, slots, slotMs, genesis: first })
  const warped = warpSlot === null ? null : cheats.warp(warpSlot)
  if (warped?.ok === false) {
    await store.close()
    await archive.close()
    throw new Fault('warp-slot', `--warp-slot: ${warped.refusal.message}`)
  }
  slots.start()
  return {
    chain,
    cheats,
    seed: store.seed,
    startTraffic: () => traffic.start(),
    async stop() {
      traffic.stop()
      slots.stop()
      // The open slot's transactions are kept: the next start continues after it.
      producer.endSlot()
      await store.close(ledger)
      await archive.close()
    },
  }
}

function archiveIn(
  { path, log }: EmbeddedDeps,
  section: Pick<ChainSection, 'historySlots' | 'historyBytes'>,
): Archive {
  const bounds = { slots: section.historySlots, bytes: section.historyBytes }
  return new Archive(join(path, 'history'), bounds, (fault) =>
    log.warn('history write failed, it is kept in memory until the next start', {
      reason: messageOf(fault),
    }),
  )
}

/** What a new chain begins with; read before its folder is made, so that a mistake leaves none. */
async function genesisOf(svm: Svm, deps: EmbeddedDeps): Promise<Genesis> {
  const { genesis = null, path, isFresh, log } = deps
  if (genesis === null) return noGenesis
  if (isFresh || !(await ChainStore.exists(path)))
    return readGenesis(genesis, (account) => svm.load([account]) === 0)
  const flags = genesis.flags.join(', ')
  log.warn('flags ignored: the ledger exists already, --reset begins a new one', { flags })
  return noGenesis
}

async function warpSlotOf({ warpSlot = null }: EmbeddedDeps): Promise<number | null> {
  return typeof warpSlot === 'string' ? slotAt(warpSlot) : warpSlot
}

const noGenesis: Genesis = { accounts: [], mint: null, faucetLamports: null }

const earlierSlotsPerEpoch = 432_000

/** Every slot writes these, from the blocks before it. */
const derivedSysvars = new Set(
  [sysvars.slotHashes, sysvars.recentBlockhashes, sysvars.slotHistory].map(keyOf),
)

/** Accounts that a new VM has, by key. */
type Builtins = ReadonlyMap<string, VmAccount>

/**
 * Fills the ledger from disk, or begins it, and loads its accounts into the VM. Returns the newest
 * blocks that were on disk.
 */
async function restore(
  store: ChainStore,
  ledger: LedgerState,
  deps: Pick<EmbeddedDeps, 'clock' | 'log'> & {
    readonly archive: Archive
    readonly svm: Svm
    readonly builtins: Builtins
    readonly genesis: Genesis
    readonly keys: ChainKeys
    readonly hasTraffic: boolean
  },
): Promise<readonly RestoredBlock[]> {
  const { archive, svm, builtins, genesis, keys, hasTraffic, clock, log } = deps
  let restored: readonly RestoredBlock[]
  try {
    restored = await store.restore(ledger, (account) => isKept(account, builtins))
    for (const account of builtins.values())
      if (ledger.newestAccount(account.pubkey) === null)
        ledger.write(versionOf(account, { slot: 0, ledger }))
    const schedule = ledger.newestAccount(sysvars.epochSchedule)
    const isNew = restored.length === 0
    const slot = isNew ? 0 : ledger.newest.slot
    const lacksWallets = hasTraffic && ledger.newestAccount(keys.mint) === null
    if (lacksWallets) addAccounts(ledger, trafficAccounts(keys), slot)
    if (schedule !== null) ledger.epochSchedule = epochScheduleOf(slotsPerEpochOf(schedule.data))
    else {
      // Chains of earlier versions had epochs of this length, and no validator.
      if (!isNew) ledger.epochSchedule = epochScheduleOf(earlierSlotsPerEpoch)
      const unixTime = Math.floor(clock.nowMs() / 1000)
      // Before what every cluster has, which wins over files, as agave's genesis does.
      if (isNew) addAccounts(ledger, [...genesis.accounts, ...genesisAccounts(keys, genesis)], 0)
      addCluster(ledger, { svm, keys, slot, unixTime })
      if (isNew) begin(ledger, { hash: keys.genesisHash, unixTime })
    }
    if (schedule === null || lacksWallets) await store.snapshot(ledger)
    await archive.truncateAfter(ledger.newest.slot)
  } catch (error) {
    await store.close()
    await archive.close()
    throw error
  }
  ledger.settle()
  const accounts = svm.load(missingAccounts(ledger, builtins))
  if (accounts > 0) log.warn('the VM refused accounts of the ledger', { accounts })
  return restored
}

/** The accounts that a new VM lacks. */
function* missingAccounts(ledger: LedgerState, builtins: Builtins): IterableIterator<VmAccount> {
  const executables: VmAccount[] = []
  for (const account of ledger.accountsAt(ledger.newest.slot)) {
    if (isBuiltin(account, builtins)) continue
    // The VM loads the code of a program together with the program, so the code comes first.
    if (account.executable) executables.push(account)
    else yield account
  }
  yield* executables
}

/** Whether an account belongs on disk. */
function isKept(account: LedgerAccount, builtins: Builtins): boolean {
  return !derivedSysvars.has(keyOf(account.pubkey)) && !isBuiltin(account, builtins)
}

/** A new VM has it. */
function isBuiltin(account: LedgerAccount, builtins: Builtins): boolean {
  const builtin = account.slot === 0 ? builtins.get(keyOf(account.pubkey)) : undefined
  // A chain may have begun with another program under that address.
  return builtin !== undefined && isSameKey(builtin.data, account.data)
}

/** Writes what every cluster has. */
function addCluster(
  ledger: LedgerState,
  from: {
    readonly svm: Svm
    readonly keys: ChainKeys
    readonly slot: number
    readonly unixTime: number
  },
): void {
  const { svm, keys, slot, unixTime } = from
  const fixed = svm.genesis(vmSysvars).map(({ pubkey, data }) => sysvarAccount(pubkey, data))
  const schedule = ledger.epochSchedule
  const cluster = clusterAccounts(keys, { slot, unixTime, schedule })
  addAccounts(ledger, [...fixed, ...cluster], slot)
}

/** Writes accounts that no transaction wrote, and adds their lamports to the supply. */
function addAccounts(ledger: LedgerState, accounts: readonly VmAccount[], slot: number): void {
  for (const account of accounts) {
    ledger.write(versionOf(account, { slot, ledger }))
    ledger.mint(account.lamports)
  }
}

/** The first block: slot 0, whose hash is the chain's. */
function begin(
  ledger: LedgerState,
  { hash, unixTime }: { readonly hash: Uint8Array; readonly unixTime: number },
): void {
  let supply = 0n
  for (const { lamports } of ledger.accountsAt(0)) supply += lamports
  ledger.mint(supply - ledger.lamports)
  const facts = {
    slot: 0,
    parentSlot: 0,
    hash,
    parentHash: new Uint8Array(32),
    blockHeight: 0,
    blockTime: unixTime,
    transactionsTotal: 0,
    supply,
  }
  ledger.close(new Block(facts, [], packEntries([])))
}

// Publishes the blocks that were on disk at the start, so that a geyser replay reaches back before
// it. All of them are finalized: nothing forks here.
//
// The journal has the last version of each account that a block wrote; earlier writes of the same
// block, and the sysvars that each slot derives, are not replayed.

/** Memory of the blocks that are published, about: their encoding delays the start. */
const blockBytesMax = 16 * 1024 * 1024

/** `blocks`: oldest first. */
export function publishRestored(blocks: readonly RestoredBlock[], sink: SolanaSink): void {
  let first = blocks.length
  for (let bytes = 0; first > 0 && bytes < blockBytesMax; first--)
    bytes += blocks[first - 1]!.block.bytes
  // Genesis was never published.
  for (const restored of blocks.slice(first)) if (restored.block.slot > 0) publish(restored, sink)
}

function publish({ block, written }: RestoredBlock, sink: SolanaSink): void {
  const { slot, parentSlot: parent, entries } = block
  const transactions = block.transactions()
  const writtenBy: AccountContent[][] = transactions.map(() => [])
  const writers = lastWriters(transactions)
  sink.status({ slot, parent, status: slotStatus.firstShredReceived })
  sink.status({ slot, parent, status: slotStatus.createdBank })
  for (const account of written()) {
    const writer = transactions[writers.get(keyOf(account.pubkey)) ?? -1]
    if (writer === undefined) sink.account(slot, { ...account, txnSignature: null })
    else writtenBy[writer.index]!.push({ ...account, txnSignature: writer.signature })
  }
  for (const { content, index } of transactions) {
    const written = writtenBy[index]!.sort((a, b) => (a.writeVersion < b.writeVersion ? -1 : 1))
    sink.transaction(slot, content, written)
  }
  for (const entry of entries) sink.entry(slot, entry)
  reportBlock(sink, block, entries.length)
  sink.status({ slot, parent, status: slotStatus.confirmed })
  sink.status({ slot, parent, status: slotStatus.finalized })
}

/** Index of the last transaction that wrote each key; one that failed wrote its payer only. */
function lastWriters(transactions: readonly LedgerTransaction[]): Map<string, number> {
  const writers = new Map<string, number>()
  for (const { index, err, keys, content, meta } of transactions) {
    const locks = err === null ? writeLocks(content.message, meta) : [true]
    keys.forEach((key, at) => {
      if (locks[at] === true) writers.set(keyOf(key), index)
    })
  }
  return writers
}
