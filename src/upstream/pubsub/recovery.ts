// What a wish missed between two nodes. Thread: main. Made by set-relay.ts, one for each set.
// An account's current value is read and told once; a pending signature is asked for, so that a
// confirmation which came between is told; everything else just goes on.
//
//   account   -> getAccountInfo, some at a time, not from before what was told already
//   signature -> getSignatureStatuses, up to 256 in one call
//   no answer -> again, later and later, until the wish is over or has moved on
import type { HeldWish } from './held-wish.ts'
import { membersOf, slotOf } from './message.ts'

/** The text of a node's answer to a call, whole; null when there is none. Never rejects. */
export type AskSet = (
  method: string,
  params: string,
  options: { readonly minContextSlot?: number },
) => Promise<string | null>

export interface RecoveryDeps {
  readonly ask: AskSet
  /** Passes a result on as if the node had said it. */
  tell(wish: HeldWish, result: string): void
  readonly tally: { resent: number; rechecked: number }
}

const commitments = ['processed', 'confirmed', 'finalized'] as const
type Commitment = (typeof commitments)[number]

/** As many as getSignatureStatuses takes. */
const STATUSES_MAX = 256
const READS_MAX = 16
const RETRY_MS_MIN = 200
const RETRY_MS_MAX = 5_000
/** After so many tries a value from an earlier slot is better than none: the chain went back. */
const EXACT_TRIES = 5
/** A read that never works is not worth asking for ever; the next notice tells the value. */
const READ_TRIES_MAX = 20

interface Missed {
  readonly wish: HeldWish
  readonly epoch: number
  tries: number
}

export class Recovery {
  readonly #deps: RecoveryDeps
  readonly #signatures: Missed[] = []
  readonly #accounts: Missed[] = []
  readonly #timers = new Set<NodeJS.Timeout>()
  #reading = 0
  #isCollecting = false
  #isStopped = false

  constructor(deps: RecoveryDeps) {
    this.#deps = deps
  }

  /** The wish has just been taken by another node than before. */
  moved(wish: HeldWish): void {
    this.#queue({ wish, epoch: wish.epoch, tries: 0 })
  }

  stop(): void {
    this.#isStopped = true
    for (const timer of this.#timers) clearTimeout(timer)
    this.#accounts.length = 0
    this.#signatures.length = 0
  }

  #queue(missed: Missed): void {
    if (!isWanted(missed) || this.#isStopped) return
    if (missed.wish.wish.topic === 'account') {
      this.#accounts.push(missed)
      this.#readMore()
    } else if (missed.wish.wish.topic === 'signature') {
      this.#signatures.push(missed)
      if (this.#isCollecting) return
      // A node that takes many takes them in one go: they are asked for together.
      this.#isCollecting = true
      this.#later(RETRY_MS_MIN / 4, () => {
        this.#isCollecting = false
        const all = this.#signatures.splice(0)
        for (let at = 0; at < all.length; at += STATUSES_MAX)
          void this.#recheck(all.slice(at, at + STATUSES_MAX))
      })
    }
  }

  #again(missed: Missed): void {
    const delayMs = Math.min(RETRY_MS_MIN * 2 ** missed.tries++, RETRY_MS_MAX)
    this.#later(delayMs, () => this.#queue(missed))
  }

  #later(delayMs: number, run: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      run()
    }, delayMs).unref()
    this.#timers.add(timer)
  }

  #readMore(): void {
    while (this.#reading < READS_MAX) {
      const missed = this.#accounts.shift()
      if (missed === undefined) return
      this.#reading++
      void this.#read(missed).finally(() => {
        this.#reading--
        this.#readMore()
      })
    }
  }

  async #read(missed: Missed): Promise<void> {
    const { wish } = missed
    const bound = missed.tries < EXACT_TRIES && wish.slot > 0 ? { minContextSlot: wish.slot } : {}
    const [key, config] = JSON.parse(wish.wish.params) as [string, object]
    const params = JSON.stringify([key, { ...config, ...bound }])
    const answer = await this.#deps.ask('getAccountInfo', params, bound)
    if (!isWanted(missed) || this.#isStopped) return
    const { result = '' } = (answer === null ? null : membersOf(answer)) ?? {}
    const slot = slotOf(result)
    const { value } = membersOf(result) ?? {}
    if (slot === null || value === undefined) {
      if (missed.tries < READ_TRIES_MAX) this.#again(missed)
      return
    }
    // The node told it in the meantime, as of then or later.
    if (wish.isHeard && wish.slot >= slot) return
    this.#deps.tally.resent++
    const shown = value === 'null' ? goneAccount(config) : value
    this.#deps.tell(wish, `{"context":{"slot":${slot}},"value":${shown}}`)
  }

  async #recheck(list: readonly Missed[]): Promise<void> {
    const wanted = list.filter(isWanted)
    if (wanted.length === 0) return
    const names = wanted.map(({ wish }) => signatureOf(wish).signature)
    const params = JSON.stringify([names, { searchTransactionHistory: true }])
    const answer = await this.#deps.ask('getSignatureStatuses', params, {})
    if (this.#isStopped) return
    const statuses = answer === null ? null : statusesIn(answer)
    for (const [at, missed] of wanted.entries()) {
      if (!isWanted(missed)) continue
      if (statuses === null) this.#again(missed)
      else this.#tellStatus(missed.wish, statuses[at] ?? null)
    }
  }

  #tellStatus(wish: HeldWish, status: Status | null): void {
    if (status === null) return
    const { commitment, wantsReceived } = signatureOf(wish)
    const context = `{"context":{"slot":${status.slot}},"value":`
    if (wantsReceived) this.#deps.tell(wish, `${context}"receivedSignature"}`)
    // What is not sure enough yet, the node tells: it has the subscription.
    if (status.level < commitments.indexOf(commitment)) return
    this.#deps.tally.rechecked++
    this.#deps.tell(wish, `${context}{"err":${JSON.stringify(status.err)}}}`)
  }
}

function isWanted({ wish, epoch }: Missed): boolean {
  return !wish.isOver && wish.epoch === epoch
}

/** The params are our own writing (wanted-params.ts), with every member there. */
function signatureOf({ wish }: HeldWish) {
  const [signature, config] = JSON.parse(wish.params) as [
    string,
    { commitment: Commitment; enableReceivedNotification: boolean },
  ]
  const { commitment, enableReceivedNotification: wantsReceived } = config
  return { signature, commitment, wantsReceived }
}

interface Status {
  readonly slot: number
  readonly level: number
  readonly err: unknown
}

/** Null when the answer is none. */
function statusesIn(answer: string): readonly (Status | null)[] | null {
  try {
    const { result } = JSON.parse(answer) as { result?: { value?: unknown } }
    const value = result?.value
    return Array.isArray(value) ? value.map(statusOf) : null
  } catch {
    return null
  }
}

function statusOf(value: unknown): Status | null {
  if (typeof value !== 'object' || value === null) return null
  const { slot, confirmations, confirmationStatus, err } = value as Record<string, unknown>
  if (typeof slot !== 'number') return null
  // Without a word on it: rooted ones count no confirmations any more.
  const silent = confirmations === null ? 2 : 0
  const known = commitments.indexOf(confirmationStatus as Commitment)
  return { slot, level: known === -1 ? silent : known, err: err ?? null }
}

/** An account that is not there, as a validator tells of one that went away. */
function goneAccount(config: object): string {
  const { encoding = 'binary' } = config as { encoding?: string }
  const data = encoding === 'binary' ? '""' : `["","${dataForm(encoding)}"]`
  const owner = '11111111111111111111111111111111'
  return (
    `{"lamports":0,"data":${data},"owner":"${owner}",` +
    `"executable":false,"rentEpoch":0,"space":0}`
  )
}

function dataForm(encoding: string): string {
  return encoding === 'jsonParsed' ? 'base64' : encoding
}
