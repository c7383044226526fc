// Verifies the leader's signature on shreds: one Ed25519 check for the 64 shreds of a set.
// Thread: shred worker.
//
// A slot has one leader. Its key is known from the first set that verified, or because there is
// only one key; from then on a set costs one check. Before that the keys are tried one after the
// other, a few per turn of the caller's loop: neither a long list nor forged sets stall it.
import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { rootOf, signatureBytes, slotOf } from './shred.ts'

/** Sets whose verdict is cached; at 80 sets a second, one minute of them. */
const verdictsMax = 5000
/** Slots whose leader is cached: more than a receiver's window has. */
const slotsMax = 256
/** Checks per turn for slots whose leader is unknown, about half a millisecond. */
const searchChecksMax = 4
/** Sets whose signer is searched concurrently; the one with fewest shreds is evicted. */
const searchesMax = 64

/** A set of a slot whose leader is not known yet. */
export interface LeaderSearch {
  readonly slot: number
  /** Null until it is over. */
  isSigned: boolean | null
}

interface OpenSearch extends LeaderSearch {
  readonly key: string
  readonly root: Uint8Array
  readonly signature: Uint8Array
  /** The keys as they were when it began, most recent signer first, and the next one to try. */
  readonly leaders: readonly KeyObject[]
  next: number
  /** Shreds that wait for it. */
  shreds: number
}

export class LeaderSignatures {
  /** Most recent signer first. Replaced, never mutated: searches keep their own list. */
  #leaders: readonly KeyObject[]
  readonly #leaderOf = new Map<number, KeyObject>()
  readonly #verdicts = new Map<string, boolean>()
  readonly #searches = new Map<string, OpenSearch>()
  /** Searches that ended since the last turn. */
  #ended: LeaderSearch[] = []
  #budget = searchChecksMax
  /** Number of Ed25519 checks made. */
  checks = 0

  /** Takes the 32-byte public keys of possible leaders. */
  constructor(leaders: readonly Uint8Array[]) {
    this.#leaders = leaders.map(publicKeyOf)
  }

  /** True while `search` has work to do. */
  get isBusy(): boolean {
    return this.#searches.size > 0 || this.#ended.length > 0 || this.#budget < searchChecksMax
  }

  /**
   * Whether the slot's leader signed the root that this well-formed shred's proof leads to. A
   * search while that is unknown: the caller keeps the shred until `search` returns that search.
   */
  check(shred: Uint8Array): boolean | LeaderSearch {
    const root = rootOf(shred)
    const signature = shred.subarray(0, signatureBytes)
    const key = root.toString('latin1') + Buffer.from(signature).toString('latin1')
    const known = this.#verdicts.get(key)
    if (known !== undefined) return known
    const slot = slotOf(shred)
    const leader = this.#leaders.length === 1 ? this.#leaders[0] : this.#leaderOf.get(slot)
    if (leader !== undefined) return this.#remember(key, this.#isBy(leader, root, signature))
    const open = this.#searches.get(key)
    if (open !== undefined) {
      open.shreds += 1
      return open
    }
    if (this.#searches.size >= searchesMax) this.#giveUp()
    const search: OpenSearch = {
      slot,
      isSigned: null,
      key,
      root,
      signature: Uint8Array.from(signature),
      leaders: this.#leaders,
      next: 0,
      shreds: 1,
    }
    return this.#advance(search) ?? search
  }

  /** One turn of searching, the set with most shreds first; returns the searches that ended. */
  search(): readonly LeaderSearch[] {
    this.#budget = searchChecksMax
    let best: OpenSearch | null = null
    for (const search of this.#searches.values())
      if (best === null || search.shreds > best.shreds) best = search
    if (best !== null && this.#advance(best) !== null) this.#ended.push(best)
    const ended = this.#ended
    this.#ended = []
    return ended
  }

  /** Ends the search with fewest shreds, the oldest of them: real sets soon have more. */
  #giveUp(): void {
    let least: OpenSearch | null = null
    for (const search of this.#searches.values())
      if (least === null || search.shreds < least.shreds) least = search
    if (least === null) return
    least.isSigned = false
    this.#searches.delete(least.key)
    this.#ended.push(least)
  }

  /** Tries keys as long as the budget lasts; null while the search is not over. */
  #advance(search: OpenSearch): boolean | null {
    const { slot, leaders, root, signature, key } = search
    this.#searches.delete(key)
    const leader = this.#leaderOf.get(slot)
    if (leader !== undefined) search.isSigned = this.#isBy(leader, root, signature)
    while (search.isSigned === null && this.#budget > 0) {
      this.#budget -= 1
      const candidate = leaders[search.next++]!
      if (this.#isBy(candidate, root, signature)) {
        this.#learn(slot, candidate)
        search.isSigned = true
      } else if (search.next === leaders.length) search.isSigned = false
    }
    if (search.isSigned !== null) return this.#remember(key, search.isSigned)
    this.#searches.set(key, search)
    return null
  }

  #learn(slot: number, leader: KeyObject): void {
    if (this.#leaderOf.size >= slotsMax) this.#leaderOf.delete(this.#leaderOf.keys().next().value!)
    this.#leaderOf.set(slot, leader)
    if (this.#leaders[0] !== leader)
      this.#leaders = [leader, ...this.#leaders.filter((other) => other !== leader)]
  }

  #remember(key: string, verdict: boolean): boolean {
    if (this.#verdicts.size >= verdictsMax) this.#verdicts.clear()
    this.#verdicts.set(key, verdict)
    return verdict
  }

  #isBy(leader: KeyObject, root: Uint8Array, signature: Uint8Array): boolean {
    this.checks += 1
    return verify(null, root, leader, signature)
  }
}

function publicKeyOf(key: Uint8Array): KeyObject {
  const x = Buffer.from(key).toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
}

// Recognises the challenge that a destination of ShredStream sends back to prove its address.

/** 8 bytes of name, 32 hexadecimal digits. */
const challengeShape = /^SLUICE1 [0-9a-f]{32}$/
const challengeBytes = 40

export function isChallenge(packet: Uint8Array): boolean {
  if (packet.length !== challengeBytes) return false
  return challengeShape.test(Buffer.from(packet).toString('latin1'))
}
