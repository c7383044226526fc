// The hosts of a connection string, which are tried in turn: postgres://user@one:5432,two/database.
import { type Backoff, backoffMs } from '../../../base/backoff.ts'

const form = /^(\w+:\/\/(?:[^@/]*@)?)([^/?]*)(.*)$/

export class Hosts {
  readonly #urls: readonly string[]
  #at = 0

  constructor(url: string) {
    const [, before = '', hosts = '', after = ''] = form.exec(url) ?? []
    this.#urls = hosts === '' ? [url] : hosts.split(',').map((host) => before + host + after)
  }

  /** Connection string of the host that is used, or tried next. */
  get url(): string {
    return this.#urls[this.#at]!
  }

  /** The host cannot be used now. */
  next(): void {
    this.#at = (this.#at + 1) % this.#urls.length
  }

  /** Delay before the next attempt after that many failures in a row: one per round of hosts. */
  waitMs(failures: number, backoff: Backoff): number {
    const count = this.#urls.length
    return (failures - 1) % count === 0 ? backoffMs(Math.ceil(failures / count), backoff) : 0
  }
}
