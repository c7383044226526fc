// Plans what a generated transaction does: which contracts it calls, which storage it touches.
// Thread: source worker. Statistics match the real recording: 60 % contract calls, 4.1 accounts and
// 6.2 storage slots per transaction, 3.4 call frames, 1.3 logs, a few very popular contracts.
import { mix, Random, writeDigest, Zipf } from './random.ts'

/** Accounts a transaction touches at most. */
const accountsMax = 24
/** Storage slots a transaction touches in one contract at most. */
const slotsPerAccountMax = 60
const contractCount = 4096
const userCount = 65_536
const beneficiaryCount = 16
/** Storage slots of a contract's mappings; sampled uniformly, so most are touched once. */
const mappingSlots = 1 << 22
/** Hot storage slots per call, which all callers of the contract touch, besides the first. */
const hotSlotsMean = 5
const callDataMax = 8 * 1024

/** First words of digests, so that a contract and a user of one index differ. */
const kind = { contract: 1, user: 2, beneficiary: 3, mapping: 4 }

/** Plan of one transaction. Reused: valid until the next `plan` into it. */
export class TxnPlan {
  index = 0
  type = 2
  isCall = false
  isSuccess = true
  nonce = 0
  gasUsed = 0
  gasLimit = 0
  dataLength = 0
  logCount = 0
  callFrameCount = 1
  accessListCount = 0
  authListCount = 0
  accountCount = 0
  /** 20 bytes per account: sender first, then the callee, the beneficiary, further contracts. */
  readonly addresses = new Uint8Array(accountsMax * 20)
  /** The contract's rank + 1 per account; 0 for accounts without code. */
  readonly contracts = new Uint32Array(accountsMax)
  readonly slots = new Uint32Array(accountsMax)
  /** How many of an account's slots are its hottest, numbered from 0. */
  readonly hotSlots = new Uint32Array(accountsMax)
  readonly transientSlots = new Uint32Array(accountsMax)
  /** The transaction's own random stream, for other values of its events. */
  readonly random = new Random()
}

export class TrafficPlan {
  readonly #seed: number
  readonly #contracts: Zipf
  readonly #beneficiaries: Zipf

  constructor(options: { readonly seed: number; readonly skew: number }) {
    this.#seed = options.seed
    this.#contracts = new Zipf(contractCount, options.skew)
    this.#beneficiaries = new Zipf(beneficiaryCount, 1)
  }

  /** Plans transaction `index` of the block that `blockWord` identifies. */
  plan(plan: TxnPlan, block: { word: number; beneficiary: number }, index: number): void {
    const random = plan.random
    random.seed(this.#seed, block.word, mix(index + 1))
    plan.index = index
    plan.isCall = random.chance(0.6)
    plan.isSuccess = random.chance(0.972)
    plan.type = random.chance(0.086) ? 0 : random.chance(0.004) ? 1 : random.chance(0.002) ? 4 : 2
    plan.nonce = random.below(5000)
    plan.accessListCount = plan.type === 1 ? 1 + random.below(4) : 0
    plan.authListCount = plan.type === 4 ? 1 : 0
    plan.accountCount = 0
    this.#addAccount(plan, kind.user, random.below(userCount))
    if (plan.isCall) this.#planCall(plan, block.beneficiary)
    else {
      this.#addAccount(plan, kind.user, random.below(userCount))
      this.#addAccount(plan, kind.beneficiary, block.beneficiary)
      plan.dataLength = 0
      plan.logCount = 0
      plan.callFrameCount = 1
      plan.gasUsed = 21_000
    }
    plan.gasLimit = Math.ceil(plan.gasUsed * (1 + random.fraction()))
  }

  drawBeneficiary(random: Random): number {
    return this.#beneficiaries.draw(random)
  }

  writeBeneficiary(bytes: Uint8Array, at: number, index: number): void {
    this.#writeAddress(bytes, at, kind.beneficiary, index)
  }

  /** The key of a plan's storage slot; slots of one transaction are distinct. */
  writeSlotKey(bytes: Uint8Array, at: number, plan: TxnPlan, account: number, slot: number): void {
    if (slot < plan.hotSlots[account]!) {
      bytes.fill(0, at, at + 31)
      bytes[at + 31] = slot
      return
    }
    // The slot's index is mixed in, so that a transaction never gets the same key twice.
    const drawn = plan.random.below(mappingSlots)
    const contract = plan.contracts[account]!
    writeDigest(bytes, { at, length: 32 }, this.#seed, kind.mapping, contract, drawn * 64 + slot)
  }

  #planCall(plan: TxnPlan, beneficiary: number): void {
    const random = plan.random
    const contractsMax = accountsMax - 2
    const touched = Math.min(contractsMax, 1 + Math.floor(random.exponential(2.6)))
    this.#addContract(plan)
    this.#addAccount(plan, kind.beneficiary, beneficiary)
    for (let contract = 1; contract < touched; contract++) this.#addContract(plan)
    this.#planStorage(plan)
    plan.dataLength = random.chance(0.5)
      ? 68
      : Math.min(callDataMax, 4 + 32 * Math.floor(random.exponential(28)))
    plan.logCount = Math.floor(random.exponential(2.7))
    plan.callFrameCount = 1 + Math.floor(random.exponential(4.5))
    plan.gasUsed = 25_000 + Math.floor(random.exponential(85_000))
  }

  /** Spreads about ten storage slots over the first contracts, hottest slots first. */
  #planStorage(plan: TxnPlan): void {
    const random = plan.random
    let withStorage = 1 + Math.floor(random.exponential(1.25))
    let left = Math.ceil(random.exponential(10.8))
    for (let account = 0; account < plan.accountCount && left > 0; account++) {
      if (plan.contracts[account] === 0 || withStorage === 0) continue
      const share = Math.min(slotsPerAccountMax, left, Math.ceil(left / withStorage))
      plan.slots[account] = share
      plan.hotSlots[account] = Math.min(share, 1 + Math.floor(random.exponential(hotSlotsMean)))
      plan.transientSlots[account] = random.chance(0.02) ? 1 + random.below(2) : 0
      left -= share
      withStorage -= 1
    }
  }

  #addContract(plan: TxnPlan): void {
    const rank = this.#contracts.draw(plan.random)
    for (let account = 0; account < plan.accountCount; account++)
      if (plan.contracts[account] === rank + 1) return
    this.#addAccount(plan, kind.contract, rank)
    plan.contracts[plan.accountCount - 1] = rank + 1
  }

  #addAccount(plan: TxnPlan, of: number, index: number): void {
    const account = plan.accountCount
    this.#writeAddress(plan.addresses, account * 20, of, index)
    plan.contracts[account] = 0
    plan.slots[account] = 0
    plan.hotSlots[account] = 0
    plan.transientSlots[account] = 0
    plan.accountCount = account + 1
  }

  #writeAddress(bytes: Uint8Array, at: number, of: number, index: number): void {
    writeDigest(bytes, { at, length: 20 }, this.#seed, of, index, 0)
  }
}
