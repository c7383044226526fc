// Changes the chain as no transaction could, for tests: accounts, programs, the clock.
// Thread: main of the devnode. What surfpool calls cheat codes. Slots and time only move forward.
import { Commitment } from '../base/commitment.ts'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { isSameKey, keyOf, keyText } from '../chain/solana/base58.ts'
import { findProgramAddress } from '../chain/solana/program-address.ts'
import { nativeMint, programs, sysvarOwner } from '../chain/solana/programs.ts'
import { readTokenAccount, tokenAccountBytes } from '../chain/solana/token-account.ts'
import type { LedgerState } from './ledger/state.ts'
import type { Producer, SlotClock } from './producer.ts'
import { rentExemptMinimum } from './rent.ts'
import { isUpgradeable, type Svm, type VmAccount } from './svm.ts'

export interface CheatDeps {
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
      if (!isSame(account, this.#account(account.pubkey))) changed.push(account)
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

function isSame(a: VmAccount, b: VmAccount | null): boolean {
  if (b === null || a.lamports !== b.lamports || a.executable !== b.executable) return false
  return isSameKey(a.owner, b.owner) && isSameKey(a.data, b.data)
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
