// A chain of the transactions world: nodes put what they are sent into blocks, some of which die
// after they were processed. Published to a hub as the slot tracker does.
import type { Commitment } from '../../src/base/commitment.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { slotUpdate } from '../../src/chain/solana/received-batch.ts'
import { type SlotStatus, type SolanaUpdate, slotStatus } from '../../src/chain/solana/updates.ts'
import { openSolanaHub, publishUpdate } from '../../src/streams/geyser/hub.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import type { ModelCall, ModelNode, Outcome } from './model-node.ts'

const confirmedAfter = 3
const finalizedAfter = 6
/** Nodes refuse one transaction in so many. */
const refusedEvery = 20
/** Slots by which nodes are later than the chain. */
const lags = [0, 1, 2]

export interface ModelTransaction {
  /** Its signature in base58. */
  readonly name: string
  readonly bytes: Uint8Array
  /** The last slot whose block may contain it. */
  readonly lastSlot: number
}

interface ModelBlock {
  readonly slot: number
  readonly names: readonly string[]
  /** Of its transactions, those that failed. */
  readonly errors: ReadonlySet<string>
  readonly dies: boolean
}

/** Where signatures, keys and the blockhash are in the transactions of this world. */
const at = { signature: 1, payer: 69, tip: 101, program: 133, blockhash: 165 } as const

export function signatureOf(bytes: Uint8Array): string {
  return encodeBase58(bytes, at.signature, at.signature + 64)
}

/** A legacy transaction with one transfer to the tip account; its signature is a number. */
export function transactionOf(
  number: number,
  options: { readonly tipAccount: Uint8Array; readonly lastSlot: number },
): ModelTransaction {
  const { tipAccount, lastSlot } = options
  const bytes = Buffer.alloc(197 + 1 + 4 + 12 + 1)
  bytes[0] = 1
  bytes.writeUInt32LE(number, at.signature)
  bytes[at.signature + 63] = 1
  // One signer, one account that is read only, three keys.
  bytes.set([1, 0, 1, 3], 65)
  bytes.writeUInt32LE(number, at.payer)
  bytes[at.payer + 31] = 1
  bytes.set(tipAccount, at.tip)
  bytes.writeUInt32LE(lastSlot, at.blockhash)
  bytes[at.blockhash + 31] = 1
  // One instruction of the system program: accounts 0 and 1, 12 bytes: transfer 0.01 SOL.
  bytes.set([1, 2, 2, 0, 1, 12], 197)
  bytes.writeUInt32LE(2, 203)
  bytes.writeBigUInt64LE(10_000_000n, 207)
  return { name: signatureOf(bytes), bytes, lastSlot }
}

export class ForkedChain {
  readonly hub = openSolanaHub()
  slot = 100
  died = 0
  resent = 0
  /** By name: when it last reached a node. */
  readonly arrivals = new Map<string, number>()
  readonly #random: () => number
  readonly #blocks = new Map<number, ModelBlock>()
  readonly #pending = new Map<string, { readonly lastSlot: number }>()
  readonly #signatures = new Map<string, Uint8Array>()
  readonly #template = new SyntheticSolana().next().find((one) => one.kind === 'transaction')!
  #confirmed = 100

  constructor(random: () => number) {
    this.#random = random
  }

  isBlockhashValid(blockhash: Uint8Array): boolean {
    return this.#confirmed <= Buffer.from(blockhash).readUInt32LE(0)
  }

  /** The block in which it is confirmed. */
  confirmedBlockOf(name: string): ModelBlock | undefined {
    return this.#blockOf(name, (block) => !block.dies && block.slot <= this.#confirmed)
  }

  /** Newest slot at a commitment. */
  slotAt(commitment: Commitment): number {
    return this.hub.newestAt(commitment)
  }

  /** The newest slot whose block may have reached a commitment. */
  limitAt(commitment: Commitment): number {
    return this.slot - [0, confirmedAfter, finalizedAfter][commitment]!
  }

  /** A node that is not one of the world has it: it is in the next block. */
  put({ name, bytes, lastSlot }: ModelTransaction): void {
    this.#signatures.set(name, bytes.subarray(at.signature, at.signature + 64))
    this.#pending.set(name, { lastSlot })
  }

  /** The block that stays, whether it is confirmed or not. */
  winnerOf(name: string): ModelBlock | undefined {
    return this.#blockOf(name, ({ dies }) => !dies)
  }

  /** Of a node. */
  heads(index: number): [number, number, number] {
    const slot = this.slot - lags[index % lags.length]!
    return [slot, slot - confirmedAfter, slot - finalizedAfter]
  }

  next(): void {
    const slot = ++this.slot
    const random = this.#random
    if (random() < 0.9) this.#produce(slot)
    this.#settle(this.#blocks.get(slot - confirmedAfter))
    const last = this.#blocks.get(slot - finalizedAfter)
    if (last !== undefined && !last.dies) this.#report(last.slot, slotStatus.finalized)
  }

  readonly answer = ({ method, params }: ModelCall, node: ModelNode): Outcome => {
    if (method === 'sendTransaction') return this.#take(Buffer.from(String(params[0]), 'base64'))
    if (method !== 'getSignatureStatuses') return { error: { code: -32601, message: 'no method' } }
    const [processed, confirmed] = node.slots
    const value = (params[0] as string[]).map((name) => {
      const isSeen = ({ slot, dies }: ModelBlock) =>
        slot <= processed && !(dies && slot <= confirmed)
      const block = this.#blockOf(name, isSeen)
      if (block === undefined) return null
      const [, confirmedSlot, finalizedSlot] = node.slots
      const isFinalized = block.slot <= finalizedSlot
      const reached = block.slot <= confirmedSlot ? 'confirmed' : 'processed'
      const confirmationStatus = isFinalized ? 'finalized' : reached
      const err = block.errors.has(name) ? { InstructionError: [0, { Custom: 1 }] } : null
      return { slot: block.slot, confirmations: 1, err, confirmationStatus }
    })
    return { result: { context: { slot: processed }, value } }
  }

  #take(bytes: Buffer): Outcome {
    const name = signatureOf(bytes)
    if (this.arrivals.has(name)) this.resent++
    this.arrivals.set(name, performance.now())
    if (bytes.readUInt32LE(at.signature) % refusedEvery === 0)
      return { error: { code: -32003, message: 'refused', data: { err: 'AccountNotFound' } } }
    this.#signatures.set(name, bytes.subarray(at.signature, at.signature + 64))
    const chance = this.#random()
    if (chance < 0.1) return { error: { code: -32005, message: 'behind' } }
    // What is lost after that is lost without a word.
    if (chance < 0.8) this.#pending.set(name, { lastSlot: bytes.readUInt32LE(at.blockhash) })
    return { result: name }
  }

  #produce(slot: number): void {
    const random = this.#random
    const names: string[] = []
    const errors = new Set<string>()
    const dies = random() < 0.3
    for (const [name, { lastSlot }] of this.#pending) {
      this.#pending.delete(name)
      // A block that will die does not keep it out of the next one once it has.
      if (slot > lastSlot || this.#blockOf(name, (one) => this.#isAlive(one)) !== undefined)
        continue
      names.push(name)
      if (random() < 0.1) errors.add(name)
    }
    if (dies) this.died += names.length
    this.#blocks.set(slot, { slot, names, errors, dies })
    for (const [index, name] of names.entries()) {
      const err = errors.has(name) ? Uint8Array.of(0, 0, 0, 0) : null
      const signature = this.#signatures.get(name)!
      // Reason for the cast: a transaction of another chain with what the forwarder reads replaced.
      const update = { ...this.#template, slot, index, signature, err } as SolanaUpdate
      publishUpdate(this.hub, update)
    }
    this.#report(slot, slotStatus.processed)
  }

  #settle(block: ModelBlock | undefined): void {
    if (block?.dies === true) this.#report(block.slot, slotStatus.dead)
    else if (block !== undefined) {
      this.#confirmed = block.slot
      this.#report(block.slot, slotStatus.confirmed)
    }
  }

  #isAlive({ slot, dies }: ModelBlock): boolean {
    return !dies || slot > this.slot - confirmedAfter
  }

  #blockOf(name: string, accepts: (block: ModelBlock) => boolean): ModelBlock | undefined {
    for (const block of this.#blocks.values())
      if (block.names.includes(name) && accepts(block)) return block
    return undefined
  }

  #report(slot: number, status: SlotStatus): void {
    publishUpdate(this.hub, slotUpdate({ slot, createdAtMs: 0 }, { parent: null, status }))
  }
}
