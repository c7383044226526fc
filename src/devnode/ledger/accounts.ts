// Every account, with one version per slot for as long as a commitment needs it. Thread: main of
// the devnode. The newest version is first; the version of a slot is its last write.
//
//   key -> slot 120 -> slot 118 -> slot 77        finalized 100: 77 is what it sees
//          processed   confirmed   finalized      when 118 is finalized, 77 is dropped
//
// An index has every account with a version under that owner, mint, token owner or delegate; a
// reader checks the version that it sees.
import { isSameKey, keyOf } from '../../chain/solana/base58.ts'
import { isTokenProgram, readTokenAccount } from '../../chain/solana/token-account.ts'
import { ByteReader, type ByteWriter } from './bytes.ts'
import type { LedgerAccount, TokenIndex } from './ledger.ts'

interface Version {
  account: LedgerAccount
  older: Version | null
}

type IndexKind = 'program' | TokenIndex

export class Accounts {
  readonly #newest = new Map<string, Version>()
  readonly #index = new Map<string, Set<string>>()
  /** Keys written in slots that are not finalized. */
  readonly #touched = new Map<number, Set<string>>()

  get size(): number {
    return this.#newest.size
  }

  /** The account as a view up to `slot` sees it. */
  read(pubkey: Uint8Array, slot: number): LedgerAccount | null {
    return seen(this.#newest.get(keyOf(pubkey)), slot)
  }

  /** The newest version, with 0 lamports when it was closed; null when it never existed. */
  newest(pubkey: Uint8Array): LedgerAccount | null {
    return this.#newest.get(keyOf(pubkey))?.account ?? null
  }

  write(account: LedgerAccount): void {
    const key = keyOf(account.pubkey)
    const newest = this.#newest.get(key) ?? null
    let touched = this.#touched.get(account.slot)
    if (touched === undefined) {
      touched = new Set()
      this.#touched.set(account.slot, touched)
    }
    touched.add(key)
    if (newest === null || newest.account.slot !== account.slot) {
      this.#newest.set(key, { account, older: newest })
      if (newest === null || !isIndexedAlike(newest.account, account)) this.#enter(key, account)
      return
    }
    const replaced = newest.account
    newest.account = account
    if (isIndexedAlike(replaced, account)) return
    this.#enter(key, account)
    this.#leave(key, replaced)
  }

  /** Drops the versions that are older than this slot's. */
  finalize(slot: number): void {
    for (const key of this.#touched.get(slot) ?? []) {
      const newest = this.#newest.get(key)
      let base = newest ?? null
      while (base !== null && base.account.slot > slot) base = base.older
      if (base === null || newest === undefined) continue
      const dropped = base.older
      base.older = null
      if (base === newest && base.account.lamports === 0n) this.#newest.delete(key)
      for (let at = dropped; at !== null; at = at.older) this.#leave(key, at.account)
    }
    this.#touched.delete(slot)
  }

  /** Finalizes every slot up to this one: what was read from disk. */
  settle(slot: number): void {
    const settled = [...this.#touched.keys()].filter((touched) => touched <= slot)
    for (const touched of settled.sort((a, b) => a - b)) this.finalize(touched)
  }

  /** The last versions that a slot left, for the journal. */
  *writtenIn(slot: number): IterableIterator<LedgerAccount> {
    for (const key of this.#touched.get(slot) ?? []) {
      let version = this.#newest.get(key) ?? null
      while (version !== null && version.account.slot > slot) version = version.older
      if (version !== null && version.account.slot === slot) yield version.account
    }
  }

  *indexed(kind: IndexKind, of: Uint8Array, slot: number): IterableIterator<LedgerAccount> {
    for (const key of this.#index.get(`${kind} ${keyOf(of)}`) ?? []) {
      const account = seen(this.#newest.get(key), slot)
      if (account !== null && isUnder(kind, of, account)) yield account
    }
  }

  *all(slot: number): IterableIterator<LedgerAccount> {
    for (const version of this.#newest.values()) {
      const account = seen(version, slot)
      if (account !== null) yield account
    }
  }

  #enter(key: string, account: LedgerAccount): void {
    for (const entry of entriesOf(account)) {
      const keys = this.#index.get(entry)
      if (keys === undefined) this.#index.set(entry, new Set([key]))
      else keys.add(key)
    }
  }

  /** Removes the index entries that no version of the account has any more. */
  #leave(key: string, dropped: LedgerAccount): void {
    const kept = new Set<string>()
    for (let at = this.#newest.get(key) ?? null; at !== null; at = at.older)
      for (const entry of entriesOf(at.account)) kept.add(entry)
    for (const entry of entriesOf(dropped)) {
      if (kept.has(entry)) continue
      const keys = this.#index.get(entry)
      keys?.delete(key)
      if (keys?.size === 0) this.#index.delete(entry)
    }
  }
}

function seen(newest: Version | undefined, slot: number): LedgerAccount | null {
  let version = newest ?? null
  while (version !== null && version.account.slot > slot) version = version.older
  return version === null || version.account.lamports === 0n ? null : version.account
}

/** True only when both have the same index entries; the usual case of a transfer. */
function isIndexedAlike(a: LedgerAccount, b: LedgerAccount): boolean {
  if ((a.lamports === 0n) !== (b.lamports === 0n) || !isSameKey(a.owner, b.owner)) return false
  if (!isTokenProgram(a.owner)) return true
  // Mint and owner, delegate and state: all of the layout but the amounts.
  return (
    a.data.length === b.data.length &&
    isSameKey(a.data.subarray(0, 64), b.data.subarray(0, 64)) &&
    isSameKey(a.data.subarray(72, 109), b.data.subarray(72, 109))
  )
}

function entriesOf(account: LedgerAccount): string[] {
  if (account.lamports === 0n) return []
  const entries = [`program ${keyOf(account.owner)}`]
  const token = readTokenAccount(account.owner, account.data)
  if (token === null) return entries
  entries.push(`mint ${keyOf(token.mint)}`, `owner ${keyOf(token.owner)}`)
  if (token.delegate !== null) entries.push(`delegate ${keyOf(token.delegate)}`)
  return entries
}

function isUnder(kind: IndexKind, of: Uint8Array, account: LedgerAccount): boolean {
  if (kind === 'program') return isSameKey(account.owner, of)
  const token = readTokenAccount(account.owner, account.data)
  const found = token?.[kind] ?? null
  return found !== null && isSameKey(found, of)
}

// Packs accounts for the journal and the snapshots.

export function writeAccount(writer: ByteWriter, account: LedgerAccount): void {
  writer.raw(account.pubkey).raw(account.owner).u64(account.lamports).u64(account.rentEpoch)
  writer
    .u8(account.executable ? 1 : 0)
    .number(account.slot)
    .u64(account.writeVersion)
  writer.bytes(account.data)
}

export function* readAccounts(bytes: Uint8Array): IterableIterator<LedgerAccount> {
  const reader = new ByteReader(bytes)
  while (!reader.isAtEnd)
    yield {
      pubkey: new Uint8Array(reader.raw(32)),
      owner: new Uint8Array(reader.raw(32)),
      lamports: reader.u64(),
      rentEpoch: reader.u64(),
      executable: reader.u8() === 1,
      slot: reader.number(),
      writeVersion: reader.u64(),
      data: new Uint8Array(reader.bytes()),
    }
}
