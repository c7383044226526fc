// Notifications of accounts and of the accounts of programs. Thread: main.
// Every write is told, in order; an account that is gone is told with 0 lamports.
import { Commitment } from '../base/commitment.ts'
import { filtersTake } from '../solana/account-filter.ts'
import { encodeBase58 } from '../solana/base58.ts'
import { type AccountParser, type AccountView, uiAccountText } from '../solana/ui-account.ts'
import type { AccountUpdate } from '../solana/updates.ts'
import type { FeedIndex } from './feed-index.ts'
import type { SubscriptionMeters } from './meters.ts'
import type { Outbox } from './outbox.ts'

export class AccountNotices {
  readonly #index: FeedIndex
  readonly #outbox: Outbox
  readonly #meters: SubscriptionMeters
  readonly #parse: AccountParser

  constructor(parts: {
    readonly index: FeedIndex
    readonly outbox: Outbox
    readonly meters: SubscriptionMeters
    readonly parse: AccountParser
  }) {
    this.#index = parts.index
    this.#outbox = parts.outbox
    this.#meters = parts.meters
    this.#parse = parts.parse
  }

  take(commitment: Commitment, update: AccountUpdate): void {
    const { accounts, programs } = this.#index.at(commitment)
    const ofAccount = accounts.findBytes(update.pubkey)
    const ofProgram = programs.findBytes(update.owner)
    if (ofAccount.length === 0 && ofProgram.length === 0) return
    this.#meters.examined += ofAccount.length + ofProgram.length
    const texts = new AccountTexts(update, this.#parse)
    const createdAtMs = commitment === Commitment.processed ? update.createdAtMs : null
    const context = `{"context":{"slot":${update.slot}},"value":`
    for (const feed of ofAccount)
      this.#outbox.send(feed, `${context}${texts.shown(feed.wanted.view)}}`, createdAtMs)
    for (const feed of ofProgram) {
      const { filters, view } = feed.wanted
      if (!filtersTake(filters, update)) {
        this.#outbox.pass(feed)
        continue
      }
      const value = `{"pubkey":"${texts.pubkey}","account":${texts.shown(view)}}`
      this.#outbox.send(feed, `${context}${value}}`, createdAtMs)
    }
  }
}

/** The texts of one update, each made at most once however many feeds show it. */
class AccountTexts {
  readonly #update: AccountUpdate
  readonly #parse: AccountParser
  readonly #shown = new Map<string, string>()
  #pubkey: string | null = null

  constructor(update: AccountUpdate, parse: AccountParser) {
    this.#update = update
    this.#parse = parse
  }

  get pubkey(): string {
    this.#pubkey ??= encodeBase58(this.#update.pubkey)
    return this.#pubkey
  }

  shown(view: AccountView): string {
    const { encoding, dataSlice } = view
    const name =
      dataSlice === null ? encoding : `${encoding} ${dataSlice.offset} ${dataSlice.length}`
    let text = this.#shown.get(name)
    if (text === undefined) {
      text = uiAccountText(this.#update, view, this.#parse)
      this.#shown.set(name, text)
    }
    return text
  }
}
