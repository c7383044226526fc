// Starts the embedded chain and stops it. Thread: main. Called by the topology.
//
//   store (disk) -> ledger <- executor (child): what the VM was born with
//                     ^-- producer <- slot clock;  chain <- submit, traffic
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import type { Fault } from '../base/errors.ts'
import { encodeBase58 } from '../solana/base58.ts'
import { isSameKey, keyOf } from '../solana/keys.ts'
import { sysvarOwner } from '../solana/programs.ts'
import type { SolanaSink } from '../solana/updates.ts'
import type { Log } from '../telemetry/log.ts'
import type { VerifyPool } from '../threads/verify-pool.ts'
import { LocalChain } from './chain.ts'
import type { ChainSection } from './config.ts'
import { Executor } from './executor.ts'
import { birthKeys, type ChainKeys, genesisAccounts, keysOf } from './genesis.ts'
import { versionOf } from './landing.ts'
import { Block, packEntries } from './ledger/block.ts'
import type { LedgerAccount } from './ledger/ledger.ts'
import { LedgerState } from './ledger/state.ts'
import type { ChainMeters } from './meters.ts'
import { Producer } from './producer.ts'
import type { Genesis, VmAccount } from './protocol.ts'
import { SlotClock } from './slot-clock.ts'
import { ChainStore } from './store.ts'
import { Traffic } from './traffic.ts'

export interface EmbeddedDeps {
  /** Folder of the chain's state. */
  readonly path: string
  /** Drops that state first. */
  readonly isFresh: boolean
  readonly sink: SolanaSink
  readonly verifier: Pick<VerifyPool, 'verify'>
  readonly meters: ChainMeters
  readonly clock: Clock
  readonly log: Log
  /** The executor died too often to go on. */
  onDown(fault: Fault): void
}

export interface RunningChain {
  readonly chain: LocalChain
  /** All keys of the chain are derived from it. */
  readonly seed: Uint8Array
  /** Of the child process; 0 while there is none. */
  pid(): number
  stop(): Promise<void>
}

export async function startEmbeddedChain(
  section: ChainSection,
  deps: EmbeddedDeps,
): Promise<RunningChain> {
  const { clock, log, meters, sink } = deps
  const store = await ChainStore.open(deps.path, { isFresh: deps.isFresh, log, clock })
  const keys = keysOf(store.seed)
  const ledger = new LedgerState(
    {
      genesisHash: encodeBase58(keys.genesisHash),
      identity: encodeBase58(keys.identity),
      faucet: encodeBase58(keys.faucet.publicKey),
    },
    section,
  )
  const born = new Set<string>()
  let producer: Producer | null = null
  // The child boots while the disk is read: both take a good part of a second.
  const restoring = store.restore(ledger, (account) => !isBorn(account, born))
  restoring.catch(() => {}) // Told below, when the child can be stopped again.
  const executor = await Executor.start(
    {
      state: () => stateOf(ledger, born, producer),
      nonce: () => producer!.nonce,
      refused: (accounts) => log.warn('the VM did not take accounts', { accounts }),
      apply(job, executed) {
        if (!executed.isCharged) return
        const { err } = producer!.land(job.bytes, executed)
        if (err === null) meters.transactions.landed.inc()
        else meters.transactions.failed.inc()
      },
    },
    { clock, log, restarts: meters.executorRestarts, up: meters.executorUp, onDown: deps.onDown },
  )
  const writeVm = (accounts: readonly VmAccount[]) => executor.write(accounts)
  try {
    const genesis = await executor.genesis(birthKeys)
    const hasState = await restoring
    addBorn(ledger, genesis, born)
    if (!hasState) {
      begin(ledger, keys, clock)
      await store.snapshot(ledger)
    }
    ledger.settle()
    producer = new Producer({ ledger, sink, clock, writeVm })
    await executor.begin()
  } catch (error) {
    await executor.stop()
    await store.close()
    throw error
  }
  const { verifier } = deps
  const airdropLamportsMax = BigInt(section.airdropLamports)
  const chain = new LocalChain({ ledger, executor, verifier, keys, meters, airdropLamportsMax })
  meters.watch({
    slot: () => ledger.slot(Commitment.processed),
    accounts: () => ledger.accountCount,
    historyBytes: () => ledger.blockBytes,
  })
  const traffic = new Traffic(chain, { keys, perSecond: section.traffic, clock })
  const keep = (block: Block) => {
    store.append(block, ledger.writtenIn(block.slot))
    if (store.slotsSinceSnapshot >= section.snapshotSlots)
      void store.snapshot(ledger, meters.snapshotSeconds)
  }
  const slots = new SlotClock(section.slotMs, clock, () => keep(producer.endSlot()))
  slots.start()
  traffic.start()
  return {
    chain,
    seed: store.seed,
    pid: () => executor.pid,
    async stop() {
      traffic.stop()
      slots.stop()
      // What the open slot holds is kept: the next start goes on after it.
      keep(producer.stop())
      await executor.stop()
      await store.close()
    },
  }
}

/** What a new VM lacks: sysvars come last, since they change while the rest is on its way. */
function* stateOf(
  ledger: LedgerState,
  born: ReadonlySet<string>,
  producer: Producer | null,
): IterableIterator<VmAccount> {
  const executables: VmAccount[] = []
  for (const account of ledger.accounts(Commitment.processed)) {
    if (isBorn(account, born)) continue
    // The VM loads a program's code when it meets the program, so that must come first.
    if (account.executable) executables.push(account)
    else yield account
  }
  yield* executables
  yield* producer?.sysvars() ?? []
}

/** What the VM was born with goes into the ledger, where nothing has changed it since. */
function addBorn(ledger: LedgerState, { accounts }: Genesis, born: Set<string>): void {
  for (const account of accounts) {
    born.add(keyOf(account.pubkey))
    if (ledger.newestAccount(account.pubkey) === null)
      ledger.write(versionOf(account, { slot: 0, ledger }))
  }
}

/** The VM brings these along, or makes them anew in every slot. */
function isBorn(account: LedgerAccount, born: ReadonlySet<string>): boolean {
  if (isSameKey(account.owner, sysvarOwner)) return true
  return account.slot === 0 && born.has(keyOf(account.pubkey))
}

/** The first block: slot 0, whose hash is the chain's. */
function begin(ledger: LedgerState, keys: ChainKeys, clock: Clock): void {
  for (const account of genesisAccounts(keys, (bytes) => ledger.rentExemptMinimum(bytes)))
    ledger.write(versionOf(account, { slot: 0, ledger }))
  for (const { lamports } of ledger.accountsAt(0)) ledger.mint(lamports)
  const facts = {
    slot: 0,
    parentSlot: 0,
    hash: keys.genesisHash,
    parentHash: new Uint8Array(32),
    blockHeight: 0,
    blockTime: Math.floor(clock.nowMs() / 1000),
    transactionsTotal: 0,
    supply: ledger.lamports,
  }
  ledger.close(new Block(facts, [], packEntries([])))
}
