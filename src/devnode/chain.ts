// The devnode's chain: checks, executes and lands transactions, each in one synchronous call.
// Thread: main of the devnode.
//
//   submit   -> decode -> check -> VM: verify signatures, execute -> producer: land in open slot
//   simulate -> decode -> check -> VM: the same, nothing kept
import { randomBytes } from 'node:crypto'
import { Commitment } from '../base/commitment.ts'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { isSameKey, keyOf, keyText } from '../chain/solana/base58.ts'
import { findProgramAddress } from '../chain/solana/program-address.ts'
import { nativeMint, programs, sysvarOwner } from '../chain/solana/programs.ts'
import { readTokenAccount, tokenAccountBytes } from '../chain/solana/token-account.ts'
import { type DecodeProblem, TransactionLayout } from '../chain/solana/transaction.ts'
import type { TransactionError } from '../chain/solana/transaction-error.ts'
import { buildTransaction, type Instruction, transferInstruction } from './build.ts'
import { type Fee, feeOf } from './fee.ts'
import type { ChainKeys } from './genesis.ts'
import { type Block, isSameState, type Ledger } from './ledger/ledger.ts'
import type { LedgerState } from './ledger/state.ts'
import {
  durableNonce,
  lookupErrors,
  nonceAuthorityOf,
  nonceDataOf,
  nonceIndexOf,
  nonceOf,
} from './load.ts'
import type { ChainCounters } from './meters.ts'
import type { Producer, Simulated, SimulateOptions, SlotClock } from './producer.ts'
import { simulatedOf } from './producer.ts'
import { rentExemptMinimum } from './rent.ts'
import { isUpgradeable, notExecuted, type RunOptions, type Svm, type VmAccount } from './svm.ts'
import { transactionErrorText } from './transaction-error-text.ts'

interface ChainDeps {
  readonly ledger: LedgerState
  readonly svm: Svm
  readonly producer: Producer
  readonly keys: ChainKeys
  readonly counters: ChainCounters
  /** Null for no cap. */
  readonly airdropLamportsMax: bigint | null
}

/** A transaction that landed in a block: also one that failed and paid its fee. */
interface Submitted {
  readonly signature: Uint8Array
  readonly slot: number
  readonly err: TransactionError | null
}

/** Airdrops of the same amount to the same key differ in their blockhash: so many are tried. */
const airdropBlockhashes = 140
/** Instructions that one transaction may have. */
const instructionsMax = 64

export class LocalChain {
  readonly ledger: LedgerState
  readonly #deps: ChainDeps
  readonly #layout = new TransactionLayout({ v1: true })

  constructor(deps: ChainDeps) {
    this.#deps = deps
    this.ledger = deps.ledger
  }

  /**
   * Executes a transaction and lands it in the open slot. `isVerified`: the caller has verified its
   * signatures. Refusals: `invalid` (its bytes; `data.err` where they can be read), `rejected`
   * (`data.err` is the TransactionError).
   */
  submit(
    transaction: Uint8Array,
    { isVerified }: { readonly isVerified: boolean },
  ): Outcome<Submitted> {
    const taken = this.#take(transaction)
    if (!taken.ok) return taken
    const { svm, producer, counters } = this.#deps
    const { err, run } = taken.value
    const executed =
      err === null
        ? svm.execute(transaction, { ...run, mustVerify: !isVerified })
        : notExecuted(err)
    if (isLookupError(executed.err)) return unsanitary(executed.err)
    if (!executed.isCharged) {
      counters.transactions.rejected.inc()
      return rejected(executed.err ?? 'SanitizeFailure')
    }
    const landed = producer.land(transaction, executed)
    if (landed.err === null) counters.transactions.landed.inc()
    else counters.transactions.failed.inc()
    return accept({ signature: landed.signature, slot: landed.slot, err: landed.err })
  }

  /**
   * Runs a transaction on the processed state without keeping anything. Refused `invalid` as in
   * `submit`. What the chain itself would refuse (a forged signature, an unknown blockhash, a
   * duplicate) is `err` in the outcome, as in agave.
   */
  simulate(
    transaction: Uint8Array,
    { isBlockhashReplaced, mustVerify }: SimulateOptions,
  ): Outcome<Simulated> {
    const taken = this.#take(transaction, isBlockhashReplaced)
    if (!taken.ok) return taken
    const { err: refused, run } = taken.value
    const executed = this.#deps.svm.simulate(transaction, { ...run, mustVerify, refused })
    if (isLookupError(executed.err)) return unsanitary(executed.err)
    const { ledger } = this
    const { fee } = run
    const outcome = { executed, fee, ledger, isBlockhashReplaced }
    return accept(simulatedOf(this.#layout, transaction, outcome))
  }

  /**
   * Lands a signed transfer from the faucet and returns its signature, whatever becomes of it.
   * Unless the caller gives the blockhash, it differs from every one before it.
   */
  requestAirdrop(
    to: Uint8Array,
    lamports: bigint,
    blockhash: Uint8Array | null = null,
  ): Outcome<Uint8Array> {
    const { airdropLamportsMax, keys } = this.#deps
    if (airdropLamportsMax !== null && lamports > airdropLamportsMax)
      return refuse('rejected', 'airdrop-limit', `at most ${airdropLamportsMax} lamports at once`)
    const transfer = transferInstruction(keys.faucet.publicKey, to, lamports)
    const bytes =
      blockhash === null ? this.#uniqueAirdrop(transfer) : this.#airdrop(transfer, blockhash)
    this.submit(bytes, { isVerified: true })
    return accept(signatureOf(bytes))
  }

  /** With the newest blockhash with which it is no duplicate. */
  #uniqueAirdrop(transfer: Instruction): Uint8Array {
    const { ledger } = this
    let block: Block | null = ledger.newest
    for (let tries = 0; block !== null && tries < airdropBlockhashes; tries++) {
      const bytes = this.#airdrop(transfer, block.facts.hash)
      if (ledger.stored(signatureOf(bytes)) === null) return bytes
      block = block.slot === 0 ? null : ledger.block(block.parentSlot)
    }
    // As many equal ones landed: a key that no program reads distinguishes it.
    const reference = { pubkey: randomBytes(32), isSigner: false, isWritable: false }
    const accounts = [...transfer.accounts, reference]
    return this.#airdrop({ ...transfer, accounts }, ledger.newest.facts.hash)
  }

  #airdrop(transfer: Instruction, blockhash: Uint8Array): Uint8Array {
    return buildTransaction({
      signers: [this.#deps.keys.faucet],
      blockhash,
      instructions: [transfer],
    })
  }

  /**
   * Fee of a message (without signatures) in lamports; null when its blockhash is not valid, nor a
   * durable nonce. Refused `invalid` for bytes that are no message.
   */
  feeForMessage(message: Uint8Array, blockhashAt: Commitment): Outcome<bigint | null> {
    const bytes = withSignatures(message)
    const problem = this.#layout.decode(bytes)
    if (problem !== 'ok') return malformed(problem)
    const { ledger } = this
    const at = this.#layout.blockhashAt
    const isCurrent =
      ledger.isBlockhashValid(bytes.subarray(at, at + 32), blockhashAt) ||
      nonceDataOf(this.#layout, bytes, (key) => ledger.account(key, blockhashAt)) !== null
    return accept(isCurrent ? feeOf(this.#layout, bytes).lamports : null)
  }

  /** Decodes into the layout and checks what the VM does not. */
  #take(bytes: Uint8Array, isBlockhashReplaced = false): Outcome<Taken> {
    const layout = this.#layout
    const problem = layout.decode(bytes)
    if (problem !== 'ok') return malformed(problem)
    const fee = feeOf(layout, bytes)
    if (layout.instructionCount > instructionsMax) return unsanitary('SanitizeFailure')
    if (fee.malformed !== null) return unsanitary(fee.malformed)
    const { ledger } = this
    const newestHash = ledger.newest.facts.hash
    const check = checkTransaction(layout, bytes, { ledger, fee, newestHash, isBlockhashReplaced })
    if (layout.version === 1 && check.err === 'AccountLoadedTwice')
      return unsanitary('SanitizeFailure')
    const at = layout.signaturesAt
    const isDuplicate = !isBlockhashReplaced && ledger.stored(bytes.subarray(at, at + 64)) !== null
    return accept({
      err: check.err ?? (isDuplicate ? 'AlreadyProcessed' : null),
      run: {
        fee,
        nonceIndex: check.nonceIndex,
        nonce: this.#deps.producer.nonce,
        account: (pubkey) => ledger.newestAccount(pubkey),
      },
    })
  }
}

/** A transaction that can be read: why the chain refuses it, and what running it takes. */
interface Taken {
  readonly err: TransactionError | null
  readonly run: Omit<RunOptions, 'mustVerify'>
}

/** The decoder takes whole transactions: empty signatures replace the missing ones. */
function withSignatures(message: Uint8Array): Uint8Array {
  const lead = message[0] ?? 0
  const signers = (lead >= 0x80 ? (message[1] ?? 0) : lead) & 0x7f
  const signatures = new Uint8Array(signers * 64)
  const isV1 = lead === 0x81
  return Buffer.concat(isV1 ? [message, signatures] : [Uint8Array.of(signers), signatures, message])
}

/** A transaction has one signature at least, and a legacy one begins with their count. */
function signatureOf(transaction: Uint8Array): Uint8Array {
  return transaction.subarray(1, 65)
}

function isLookupError(err: TransactionError | null): err is string {
  return typeof err === 'string' && lookupErrors.includes(err)
}

function malformed(problem: DecodeProblem): Outcome<never> {
  return refuse('invalid', problem, `the transaction cannot be read: ${problem}`, {
    data: { problem },
  })
}

/** Refuses a transaction that a validator does not even simulate. */
function unsanitary(err: TransactionError): Outcome<never> {
  const text = `invalid transaction: ${transactionErrorText(err)}`
  return refuse('invalid', 'sanitize', text, { data: { err } })
}

function rejected(err: TransactionError): Outcome<never> {
  return refuse('rejected', 'transaction-error', 'the chain does not take the transaction', {
    data: { err },
  })
}

// Checks a transaction before it is executed: locks, limits, blockhash, durable nonce. Thread: main
// of the devnode. The runtime checks the rest: balances, programs, lookup tables.

/** Accounts that one transaction may lock. */
const locksMax = 128

interface Check {
  readonly err: TransactionError | null
  /** Index of the durable nonce account that replaces the blockhash; -1 without one. */
  readonly nonceIndex: number
}

/** `newestHash`: of the last complete block, from which the next nonces are made. */
function checkTransaction(
  layout: TransactionLayout,
  bytes: Uint8Array,
  on: {
    readonly ledger: Ledger
    readonly fee: Fee
    readonly newestHash: Uint8Array
    readonly isBlockhashReplaced?: boolean
  },
): Check {
  const locks = lockError(layout, bytes)
  const refused = locks ?? on.fee.err
  if (refused !== null) return { err: refused, nonceIndex: -1 }
  const blockhash = bytes.subarray(layout.blockhashAt, layout.blockhashAt + 32)
  if (
    on.isBlockhashReplaced === true ||
    on.ledger.isBlockhashValid(blockhash, Commitment.processed)
  )
    return { err: null, nonceIndex: -1 }
  const nonceIndex = usableNonce(layout, bytes, on)
  return { err: nonceIndex < 0 ? 'BlockhashNotFound' : null, nonceIndex }
}

function lockError(layout: TransactionLayout, bytes: Uint8Array): TransactionError | null {
  const { keyCount, keysAt, loadedWritable, loadedReadonly } = layout
  if (keyCount + loadedWritable + loadedReadonly > locksMax) return 'TooManyAccountLocks'
  const seen = new Set<string>()
  for (let index = 0; index < keyCount; index++)
    seen.add(keyOf(bytes.subarray(keysAt + index * 32, keysAt + index * 32 + 32)))
  return seen.size === keyCount ? null : 'AccountLoadedTwice'
}

function usableNonce(
  layout: TransactionLayout,
  bytes: Uint8Array,
  { ledger, newestHash }: { ledger: Ledger; newestHash: Uint8Array },
): number {
  const index = nonceIndexOf(layout, bytes)
  const data = nonceDataOf(layout, bytes, (pubkey) => ledger.account(pubkey, Commitment.processed))
  // A nonce that was set in this slot would advance to itself, and the transaction could run twice.
  if (data === null || isSameKey(nonceOf(data), durableNonce(newestHash))) return -1
  const authority = nonceAuthorityOf(data)
  // It signs as an account of the instruction that advances the nonce.
  const accounts = bytes.subarray(
    layout.accountsAt[0]!,
    layout.accountsAt[0]! + layout.accountsCount[0]!,
  )
  const isSigned = accounts.some((signer) => {
    const at = layout.keysAt + signer * 32
    return layout.isSigner(signer) && isSameKey(bytes.subarray(at, at + 32), authority)
  })
  return isSigned ? index : -1
}

// Changes the chain as no transaction could, for tests: accounts, programs, the clock.
// What surfpool calls cheat codes. Slots and time only move forward.

interface CheatDeps {
  readonly ledger: LedgerState
  readonly svm: Svm
  readonly producer: Producer
  readonly slots: SlotClock
  readonly slotMs: number
  /** Every account of the first block. */
  genesis(): Promise<readonly VmAccount[]>
}

/** What to change of a token account; null of a key clears it. */
export interface TokenChange {
  readonly amount?: bigint
  readonly delegate?: Uint8Array | null
  /** 0 uninitialized, 1 initialized, 2 frozen. */
  readonly state?: number
  readonly delegatedAmount?: bigint
  readonly closeAuthority?: Uint8Array | null
}

/** One of them: slots and epochs since genesis, milliseconds since 1970. */
export type Destination =
  | { readonly slot: number }
  | { readonly epoch: number }
  | { readonly timeMs: number }

const done = accept(null)
const empty = new Uint8Array(0)

export class CheatCodes {
  readonly #deps: CheatDeps

  constructor(deps: CheatDeps) {
    this.#deps = deps
  }

  /** Sets these fields of an account, which begins as an empty one of the system program. */
  setAccount(pubkey: Uint8Array, change: Partial<VmAccount>): Outcome<null> {
    return this.#write([{ ...(this.#account(pubkey) ?? absent(pubkey)), ...change, pubkey }])
  }

  /** Sets these fields of an owner's associated token account, making it where it is absent. */
  setTokenAccount(
    of: { readonly owner: Uint8Array; readonly mint: Uint8Array; readonly program: Uint8Array },
    change: TokenChange,
  ): Outcome<null> {
    const { owner, mint, program } = of
    const seeds = [owner, program, mint]
    const { address } = findProgramAddress(seeds, programs.associatedToken)
    const found = this.#account(address)
    if (found !== null && readTokenAccount(found.owner, found.data) === null)
      return refuse('invalid', 'token-account', 'Failed to unpack token account data')
    const data = found === null ? newTokenAccount(mint, owner) : Buffer.from(found.data)
    const reserve = rentExemptMinimum(data.length)
    const isNative = isSameKey(mint, nativeMint)
    if (isNative && found === null) setOptionalU64(data, 109, reserve)
    changeTokenAccount(data, change)
    const lamports = isNative ? reserve + data.readBigUInt64LE(64) : reserve
    return this.#write([{ ...(found ?? absent(address)), owner: program, lamports, data }])
  }

  /** Copies an upgradeable program to another address. */
  cloneProgram(source: Uint8Array, destination: Uint8Array): Outcome<null> {
    const found = this.#program(source)
    if (!found.ok) return found
    const { program, code } = found.value
    const target = codeAddressOf(destination)
    const data = Buffer.concat([program.data.subarray(0, 4), target])
    return this.#write([
      { ...code, pubkey: target },
      { ...program, pubkey: destination, data },
    ])
  }

  /** Changes who may upgrade a program; null: it is final. */
  setProgramAuthority(program: Uint8Array, authority: Uint8Array | null): Outcome<null> {
    const found = this.#program(program)
    if (!found.ok) return found
    const { code } = found.value
    const data = Buffer.from(code.data)
    data[12] = authority === null ? 0 : 1
    data.fill(0, 13, 45)
    if (authority !== null) data.set(authority, 13)
    return this.#write([{ ...code, data }])
  }

  /** Gives an account the state that it had in the first block, and those that it owns. */
  async resetAccount(pubkey: Uint8Array, isWithOwned: boolean): Promise<Outcome<null>> {
    const account = this.#account(pubkey)
    if (account === null) return done
    const { ledger } = this.#deps
    const keys = [pubkey]
    if (isUpgradeable(account)) keys.unshift(codeAddressOf(pubkey))
    if (isWithOwned)
      for (const owned of ledger.accountsByOwner(pubkey, Commitment.processed))
        keys.push(owned.pubkey)
    const first = byKey(await this.#deps.genesis())
    return this.#write(keys.map((key) => first.get(keyOf(key)) ?? absent(key)))
  }

  /** Gives every account the state that it had in the first block. Slots and history go on. */
  async resetNetwork(): Promise<Outcome<null>> {
    const first = byKey(await this.#deps.genesis())
    const changed: VmAccount[] = []
    for (const account of this.#deps.ledger.accounts(Commitment.processed))
      if (!first.has(keyOf(account.pubkey))) changed.push(absent(account.pubkey))
    for (const account of first.values())
      if (!isSameState(account, this.#account(account.pubkey))) changed.push(account)
    return this.#write(changed.filter(({ owner }) => !isSameKey(owner, sysvarOwner)))
  }

  /** No slot ends until `resume`; transactions still run, in the open one. */
  pause(): void {
    this.#deps.slots.stop()
  }

  resume(): void {
    this.#deps.slots.stop()
    this.#deps.slots.start()
  }

  /** Skips to a later slot and time. A slot takes its usual time on the way. */
  travel(to: Destination): Outcome<null> {
    const { ledger, producer, slotMs } = this.#deps
    const { slot } = ledger.newest
    const { slotsPerEpoch } = ledger.epochSchedule
    const { nowMs } = producer
    if ('timeMs' in to) {
      if (to.timeMs < nowMs) return past('timestamp', to.timeMs, nowMs)
      const slots = Math.floor((to.timeMs - nowMs) / slotMs)
      return this.#jump(slot + slots, to.timeMs)
    }
    const epoch = Math.floor(slot / slotsPerEpoch)
    if ('epoch' in to && to.epoch < epoch) return past('epoch', to.epoch, epoch)
    if ('slot' in to && to.slot < slot) return past('slot', to.slot, slot)
    const target = 'slot' in to ? to.slot : Math.max(slot, to.epoch * slotsPerEpoch)
    return this.#jump(target, nowMs + (target - slot) * slotMs)
  }

  /** Skips to a later slot and leaves the time as it is. */
  warp(slot: number): Outcome<null> {
    const { newest } = this.#deps.ledger
    return slot <= newest.slot ? past('slot', slot, newest.slot) : this.#jump(slot, 0)
  }

  #jump(slot: number, timeMs: number): Outcome<null> {
    if (!Number.isSafeInteger(slot) || !Number.isSafeInteger(timeMs))
      return refuse('invalid', 'time-travel', 'that is beyond the end of time')
    this.#deps.producer.jump({ slot, timeMs })
    return done
  }

  #account(pubkey: Uint8Array): VmAccount | null {
    return this.#deps.ledger.account(pubkey, Commitment.processed)
  }

  #program(pubkey: Uint8Array): Outcome<{ program: VmAccount; code: VmAccount }> {
    const program = this.#account(pubkey)
    const code = program === null ? null : this.#account(codeAddressOf(pubkey))
    if (program === null || code === null || !isUpgradeable(program))
      return refuse('invalid', 'program', `Account ${keyText(pubkey)} is not a program account`)
    return accept({ program, code })
  }

  /** All of them, or none when the VM cannot load a program among them. */
  #write(accounts: readonly VmAccount[]): Outcome<null> {
    const { svm, producer } = this.#deps
    for (const account of accounts.filter(({ executable }) => executable)) {
      const code = accounts.find(({ pubkey }) => isSameKey(pubkey, account.data.subarray(4)))
      if (svm.load(code === undefined ? [account] : [code, account]) > 0)
        return refuse(
          'rejected',
          'program',
          `the program ${keyText(account.pubkey)} cannot be loaded`,
        )
    }
    producer.write(accounts)
    return done
  }
}

function byKey(accounts: readonly VmAccount[]): Map<string, VmAccount> {
  return new Map(accounts.map((account) => [keyOf(account.pubkey), account]))
}

function absent(pubkey: Uint8Array): VmAccount {
  const nothing = { lamports: 0n, executable: false, rentEpoch: 0n, data: empty }
  return { pubkey, owner: programs.system, ...nothing }
}

function codeAddressOf(program: Uint8Array): Uint8Array {
  return findProgramAddress([program], programs.upgradeableLoader).address
}

function newTokenAccount(mint: Uint8Array, owner: Uint8Array): Buffer {
  const data = Buffer.alloc(tokenAccountBytes)
  data.set(mint, 0)
  data.set(owner, 32)
  data[108] = 1
  return data
}

function changeTokenAccount(data: Buffer, change: TokenChange): void {
  const { amount, delegate, state, delegatedAmount, closeAuthority } = change
  if (amount !== undefined) data.writeBigUInt64LE(amount, 64)
  if (delegate !== undefined) setOptionalKey(data, 72, delegate)
  if (state !== undefined) data[108] = state
  if (delegatedAmount !== undefined) data.writeBigUInt64LE(delegatedAmount, 121)
  if (closeAuthority !== undefined) setOptionalKey(data, 129, closeAuthority)
}

function setOptionalKey(data: Buffer, at: number, key: Uint8Array | null): void {
  data.writeUInt32LE(key === null ? 0 : 1, at)
  data.fill(0, at + 4, at + 36)
  if (key !== null) data.set(key, at + 4)
}

function setOptionalU64(data: Buffer, at: number, value: bigint): void {
  data.writeUInt32LE(1, at)
  data.writeBigUInt64LE(value, at + 4)
}

function past(what: string, target: number, current: number): Outcome<never> {
  const message = `Cannot travel to past ${what}: target=${target}, current=${current}`
  return refuse('rejected', 'time-travel', message)
}
