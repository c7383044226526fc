// The versions of one account by their slots.
import type { AccountState } from '../../chain/solana/geyser-content.ts'
import type { AccountUpdate } from '../../chain/solana/updates.ts'

/** An account at a slot; null when there was none. */
export interface AccountAt {
  readonly slot: number
  readonly account: AccountState | null
}

export interface Version extends AccountAt {
  readonly writeVersion: bigint
}

const versionBytes = 512

/** Keeps the last version of each slot, ascending; returns the bytes that were added. */
export function insertVersion(versions: Version[], version: Version): number {
  let at = versions.length
  while (at > 0 && versions[at - 1]!.slot > version.slot) at--
  const same = versions[at - 1]
  if (same?.slot !== version.slot) {
    versions.splice(at, 0, version)
    return bytesOf(version)
  }
  if (same.writeVersion > version.writeVersion) return 0
  versions[at - 1] = version
  return bytesOf(version) - bytesOf(same)
}

/** Removes the first version; returns its bytes. */
export function shiftVersion(versions: Version[]): number {
  return bytesOf(versions.shift()!)
}

/** A copy: an update is a view of a message, which it would keep in memory. */
export function versionOf(update: AccountUpdate, pubkey: Uint8Array): Version {
  const { slot, writeVersion, lamports, executable, rentEpoch } = update
  if (lamports === 0n) return { slot, writeVersion, account: null }
  const owner = new Uint8Array(update.owner)
  const data = new Uint8Array(update.data)
  const account = { pubkey, lamports, owner, executable, rentEpoch, data }
  return { slot, writeVersion, account }
}

function bytesOf({ account }: AccountAt): number {
  return versionBytes + (account?.data.length ?? 0)
}
