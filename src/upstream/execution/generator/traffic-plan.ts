// Plans what a generated transaction does: which contracts it calls, which storage it touches.
// Thread: source worker. Statistics match the real recording: 60 % contract calls, 4.1 accounts and
// 6.2 storage slots per transaction, 3.4 call frames, 1.3 logs, a few very popular contracts.

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

// Derives a generated block's size, hashes, competing proposals and outcome before it executes.
// Everything is a function of the seed and the block's number, so that parent
// links are valid from block to block and across restarts.

export interface Proposal {
  readonly number: number
  /** 0 for the first proposal at this number, 1 for the second. */
  readonly variant: number
  /** Seed of the block's contents. */
  readonly word: number
  readonly id: Uint8Array
  readonly ethHash: Uint8Array
  readonly parentHash: Uint8Array
  readonly beneficiary: number
  readonly txnCount: number
  /** Transactions whose results are recorded; fewer than `txnCount` when the block is rejected. */
  readonly recordedTxns: number
  readonly isRejected: boolean
  /** From BlockStart to BlockEnd. */
  readonly wallNs: number
  /** Wall time of BlockStart in ms. */
  readonly startMs: number
}

export interface Shape {
  readonly seed: number
  readonly blockMs: number
  /** Transactions per block on average. */
  readonly txnsPerBlock: number
  /** Share of blocks with two valid proposals, of which one loses. */
  readonly forkRate: number
  /** Share of blocks whose first proposal is rejected. */
  readonly rejectRate: number
}

/** Outcome of the proposals at a number. */
interface Fate {
  /** Proposals that are executed: 1 or 2. */
  readonly proposals: number
  readonly isFirstRejected: boolean
  /** The variant that is voted, finalized and verified. */
  readonly winner: number
}

const ordinary: Fate = { proposals: 1, isFirstRejected: false, winner: 0 }
/** Recording results costs about a quarter of a millisecond per transaction in the recording. */
const txnNs = 250_000
const overheadNs = 1_300_000
/** A block executes within this share of its block time, so that the next one never waits. */
const slotShare = 0.7
const emptyChance = 1 / 30
const txnsSpreadMax = 2.5

export function fateOf(shape: Shape, number: number): Fate {
  const random = randomOf(shape, number, 0xfa7e)
  const draw = random.fraction()
  if (draw < shape.rejectRate) return { proposals: 2, isFirstRejected: true, winner: 1 }
  if (draw < shape.rejectRate + shape.forkRate)
    return { proposals: 2, isFirstRejected: false, winner: random.below(2) }
  return ordinary
}

export function proposalOf(
  shape: Shape,
  traffic: TrafficPlan,
  at: { readonly number: number; readonly variant: number; readonly startMs: number },
): Proposal {
  const { number, variant, startMs } = at
  const fate = fateOf(shape, number)
  const random = randomOf(shape, number, variant + 1)
  const isRejected = fate.isFirstRejected && variant === 0
  const txnCount = drawTxnCount(shape, random)
  const slotNs = (shape.blockMs * slotShare * 1e6) / fate.proposals
  const wishedNs = overheadNs + txnCount * txnNs * (0.7 + random.fraction() * 0.6)
  return {
    number,
    variant,
    startMs,
    isRejected,
    txnCount,
    recordedTxns: isRejected ? Math.floor(txnCount / 2) : txnCount,
    word: mix(wordOf(shape, number) ^ (variant + 1)),
    id: digestOf(shape, number, variant, 0x1d),
    ethHash: ethHashOf(shape, number, variant),
    parentHash: ethHashOf(shape, number - 1, fateOf(shape, number - 1).winner),
    beneficiary: traffic.drawBeneficiary(random),
    wallNs: Math.floor(Math.min(wishedNs, slotNs)),
  }
}

function ethHashOf(shape: Shape, number: number, variant: number): Uint8Array {
  return digestOf(shape, number, variant, 0xe7)
}

/** As in the recording: half of the blocks within 0.5 and 1.3 of the mean, some empty. */
function drawTxnCount(shape: Shape, random: Random): number {
  if (random.chance(emptyChance)) return 0
  const mean = shape.txnsPerBlock / (1 - emptyChance)
  const drawn = (random.exponential(mean) + random.exponential(mean)) / 2
  return Math.round(Math.min(drawn, mean * txnsSpreadMax))
}

function digestOf(shape: Shape, number: number, variant: number, what: number): Uint8Array {
  const bytes = new Uint8Array(32)
  const high = Math.floor(number / 0x1_0000_0000)
  const span = { at: 0, length: 32 }
  writeDigest(bytes, span, mix(shape.seed ^ what), number % 0x1_0000_0000, high, variant)
  return bytes
}

function randomOf(shape: Shape, number: number, what: number): Random {
  const random = new Random()
  random.seed(shape.seed, wordOf(shape, number), what)
  return random
}

function wordOf(shape: Shape, number: number): number {
  const high = Math.floor(number / 0x1_0000_0000)
  return mix(mix(shape.seed ^ high) ^ (number % 0x1_0000_0000))
}

// Seeded random numbers for the generator: a fast stream and Zipf samples.
// Not cryptographic: the same seed produces the same chain on every machine.

/** Small fast counter generator (sfc32): 128 bits of state, four words of seed. */
export class Random {
  #a = 0
  #b = 0
  #c = 0
  #counter = 1

  /** Starts a stream that is a function of these words alone. */
  seed(a: number, b: number, c: number): void {
    this.#a = a | 0
    this.#b = b | 0
    this.#c = c | 0
    this.#counter = 1
    // Twelve rounds diffuse seeds that differ in one bit over the whole state.
    for (let round = 0; round < 12; round++) this.word()
  }

  /** 32 random bits, unsigned. */
  word(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum
    this.#c |= 0
    return sum >>> 0
  }

  /** A fraction in [0, 1). */
  fraction(): number {
    return this.word() / 0x1_0000_0000
  }

  /** A whole number in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.fraction() * bound)
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  /** Exponentially distributed with the given mean. */
  exponential(mean: number): number {
    return -Math.log(1 - this.fraction()) * mean
  }

  fill(bytes: Uint8Array, at: number, length: number): void {
    const end = at + length
    let offset = at
    while (offset < end) {
      let word = this.word()
      for (let byte = 0; byte < 4 && offset < end; byte++) {
        bytes[offset++] = word
        word >>>= 8
      }
    }
  }
}

/** Samples ranks 0..size-1 with weight 1 / (rank + 1)^exponent in constant time (alias method). */
export class Zipf {
  readonly #share: Float64Array
  readonly #alias: Uint32Array

  constructor(size: number, exponent: number) {
    this.#share = new Float64Array(size)
    this.#alias = new Uint32Array(size)
    let total = 0
    for (let rank = 0; rank < size; rank++) total += (rank + 1) ** -exponent
    const small: number[] = []
    const large: number[] = []
    for (let rank = 0; rank < size; rank++) {
      const share = ((rank + 1) ** -exponent / total) * size
      this.#share[rank] = share
      ;(share < 1 ? small : large).push(rank)
    }
    while (small.length > 0 && large.length > 0) {
      const low = small.pop()!
      const high = large[large.length - 1]!
      this.#alias[low] = high
      this.#share[high] = this.#share[high]! + this.#share[low]! - 1
      if (this.#share[high] < 1) small.push(large.pop()!)
    }
    // Columns left over by rounding keep probability 1.
    for (const rank of [...small, ...large]) this.#share[rank] = 1
  }

  draw(random: Random): number {
    const column = random.below(this.#share.length)
    return random.fraction() < this.#share[column]! ? column : this.#alias[column]!
  }
}

/**
 * Writes `length` bytes that depend on the four words alone: addresses, hashes and keys of the
 * generated chain, the same every time.
 */
export function writeDigest(
  bytes: Uint8Array,
  { at, length }: { readonly at: number; readonly length: number },
  a: number,
  b: number,
  c: number,
  d: number,
): void {
  let state = mix(mix(mix(mix(a) ^ b) ^ c) ^ d)
  const end = at + length
  for (let offset = at; offset < end; offset += 4) {
    state = (state + 0x9e37_79b9) | 0
    let word = mix(state)
    for (let index = offset; index < offset + 4 && index < end; index++) {
      bytes[index] = word
      word >>>= 8
    }
  }
}

/** Mixes all bits of a word (the finalizer of MurmurHash3). */
function mix(word: number): number {
  let value = word | 0
  value = Math.imul(value ^ (value >>> 16), 0x85eb_ca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2_ae35)
  return value ^ (value >>> 16)
}
