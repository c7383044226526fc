// The chain of the streams world: what nodes send, with void banks, forks, dead slots and a chain
// that is set back, and what each kind of client must have of it in the end.
import { encodeBase58, keyOf } from '../../src/chain/solana/base58.ts'
import {
  accountUpdate,
  blockMetaUpdate,
  slotUpdate,
} from '../../src/chain/solana/received-batch.ts'
import {
  type AccountUpdate,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../src/chain/solana/updates.ts'
import { itemsOf, markOf } from '../testkit/model-client.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'
import { voidChain } from '../testkit/void-banks.ts'

const slots = 28
/** Few: to make one takes longer than to run a seed. */
const chainsMade = 4

/** A slot of the chain that wins. */
export interface ModelSlot {
  readonly slot: number
  /** No other bank of it was ever sent. */
  readonly isClean: boolean
  /** By their indexes. */
  readonly signatures: readonly string[]
  /** The last write of each account, by their keys. */
  readonly writes: readonly { readonly owner: string; readonly name: string }[]
  readonly blockhash: string
  /** Of messages of a gRPC stream, sorted. */
  readonly marks: readonly string[]
}

export interface ModelChain {
  readonly sent: readonly SolanaUpdate[]
  readonly line: readonly ModelSlot[]
  /** What is sent of the other banks of its slots, by number: that of the last of them. */
  readonly voidUntil: ReadonlyMap<number, number>
  /** Of accounts. */
  readonly owners: readonly string[]
}

export const blockMark = 'block'

const chains = new Map<number, ModelChain>()

export function chainOf(seed: number): ModelChain {
  const number = seed % chainsMade
  const known = chains.get(number)
  if (known !== undefined) return known
  const made = makeChain(number + 1)
  chains.set(number, made)
  return made
}

function makeChain(seed: number): ModelChain {
  const { sent, line } = voidChain(seed, slots)
  const content = sent.filter(({ kind }) => kind !== 'block').map(ofFewOwners)
  const plain = withRoots(withParents(content), [...line.keys()])
  const banks = new Map<number, number>()
  const metas = new Map<number, Extract<SolanaUpdate, { kind: 'blockMeta' }>>()
  for (const one of plain)
    if (one.kind === 'blockMeta') metas.set(one.slot, one)
    else if (one.kind === 'slot' && one.status === slotStatus.createdBank)
      banks.set(one.slot, 1 + (banks.get(one.slot) ?? 0))
  const model = [...line].map(([slot, made]): ModelSlot => {
    const items = made.map(ofFewOwners)
    const meta = metas.get(slot)!
    const marks = [...itemsOf(items), markOf(7, meta.body), blockMark].toSorted()
    return {
      ...{ slot, marks, isClean: banks.get(slot) === 1, blockhash: meta.blockhash },
      signatures: signaturesOf(items),
      writes: lastWrites(items),
    }
  })
  const voidUntil = voidUntilOf(plain, line)
  return { sent: plain, line: model, voidUntil, owners: owners.map((owner) => encodeBase58(owner)) }
}

/** From its first creation to its last, and late items, of which the block has none or its own. */
function voidUntilOf(
  sent: readonly SolanaUpdate[],
  line: ReadonlyMap<number, readonly SolanaUpdate[]>,
): ReadonlyMap<number, number> {
  const found = new Map<number, number>()
  for (const [slot, items] of line) {
    const own = [...sent.entries()].filter(([, update]) => update.slot === slot)
    const isCreated = ([, one]: (typeof own)[number]) =>
      one.kind === 'slot' && one.status === slotStatus.createdBank
    const [first, last] = [own.findIndex(isCreated), own.findLastIndex(isCreated)]
    const isLate = (one: SolanaUpdate, index: number) =>
      (one.kind === 'transaction' || one.kind === 'entry') &&
      (!items.includes(one) || own.slice(index + 1).some(([, other]) => other === one))
    const lost = own.filter(
      ([, one], index) => index >= first && (index < last || (index > last && isLate(one, index))),
    )
    for (const [at] of lost) found.set(at, lost.at(-1)![0])
  }
  return found
}

/**
 * With the last statuses of each slot, as agave sends them. Where only that of the last one comes, a
 * gateway that has just started does not know of the slots before its first one.
 */
function withRoots(sent: readonly SolanaUpdate[], line: readonly number[]): SolanaUpdate[] {
  const { confirmed, finalized } = slotStatus
  const told = new Set<string>()
  const found: SolanaUpdate[] = []
  for (const update of sent) {
    if (update.kind === 'slot' && (update.status === confirmed || update.status === finalized)) {
      for (const slot of line) {
        const name = `${slot} ${update.status}`
        if (slot < update.slot && !told.has(name))
          found.push(slotUpdate({ ...update, slot }, { ...update, parent: null }))
        told.add(name)
        if (slot === update.slot) break
      }
    }
    found.push(update)
  }
  return found
}

/** Blocks name the ones that they are built on. */
function withParents(sent: readonly SolanaUpdate[]): SolanaUpdate[] {
  const hashes = new Map<number, string>()
  return sent.map((update) => {
    if (update.kind !== 'blockMeta') return update
    hashes.set(update.slot, update.blockhash)
    const parentBlockhash = hashes.get(update.parentSlot) ?? ''
    return blockMetaUpdate(update, { ...update, parentBlockhash, rewards: [] })
  })
}

const owners = [1, 2].map((byte) => new Uint8Array(32).fill(byte))

/** Accounts of one owner are written in many slots. */
function ofFewOwners(update: SolanaUpdate): SolanaUpdate {
  if (update.kind !== 'account') return update
  return accountUpdate(update, { ...update, owner: owners[update.data.length % 2]! })
}

function signaturesOf(items: readonly SolanaUpdate[]): string[] {
  return items
    .filter((one): one is TransactionUpdate => one.kind === 'transaction')
    .toSorted((a, b) => a.index - b.index)
    .map(({ signature }) => encodeBase58(signature))
}

function lastWrites(items: readonly SolanaUpdate[]): ModelSlot['writes'] {
  const last = new Map<string, AccountUpdate>()
  for (const one of items) if (one.kind === 'account') last.set(keyOf(one.pubkey), one)
  return [...last]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { pubkey, owner, lamports, data }]) => ({
      owner: encodeBase58(owner),
      name: `${encodeBase58(pubkey)} ${lamports} ${Buffer.from(data).toString('base64')}`,
    }))
}

/** An update as a node sends it, with its number among those that are sent. */
export interface Sent {
  readonly at: number
  readonly update: SolanaUpdate
}

/** Of a write that no other node has, which nothing in a block tells from the others. */
export const lie = Buffer.alloc(32, 0xee)
const lieShare = 0.3

/**
 * As one of the nodes sends it: of slots with one bank it has transactions and accounts in the
 * order in which its threads finish, those of one account in theirs. One that lies writes an account
 * that nobody wrote.
 */
export function inOrderOf({ sent, line }: ModelChain, seed: number, lies: boolean): Sent[] {
  const random = randomOf(seed)
  const clean = new Set(line.filter(({ isClean }) => isClean).map(({ slot }) => slot))
  const ordered = [...sent]
  const isMixed = ({ kind, slot }: SolanaUpdate) =>
    clean.has(slot) && (kind === 'transaction' || kind === 'account')
  for (let at = 1; at < ordered.length; at++) {
    const [before, one] = [ordered[at - 1]!, ordered[at]!]
    if (before.slot !== one.slot || !isMixed(before) || !isMixed(one) || random() < 0.5) continue
    if (before.kind === 'account' && one.kind === 'account')
      if (keyOf(before.pubkey) === keyOf(one.pubkey)) continue
    ordered[at - 1] = one
    ordered[at] = before
  }
  return ordered.flatMap((update, at) => {
    const isLie = lies && update.kind === 'account' && clean.has(update.slot)
    if (!isLie || random() > lieShare) return [{ at, update }]
    const none = { pubkey: lie, owner: lie, txnSignature: null }
    return [
      { at, update: accountUpdate(update, { ...update, ...none }) },
      { at, update },
    ]
  })
}
