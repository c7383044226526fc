// Keeps the answers to changes that were made under an idempotency key, so that a request that is
// sent again, also after a restart, changes nothing and gets the first answer.
// An answer is stored without its secrets. A row is written before its change begins: one without
// an answer is a change that was cut off, or whose outcome is unknown.
import type { Clock } from '../../base/clock.ts'
import { digestOf } from './issue.ts'
import type { StoredAnswer, Tables } from './tables.ts'
import { rowCount } from './usage-table.ts'

/** Longer than a client retries. */
const keptMs = 24 * 3_600_000
export const answersMax = 10_000

export class AnswerTable {
  readonly #tables: Tables
  readonly #clock: Clock

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
  }

  /** Begins a change under a key. Returns what the key has already, or why it cannot begin. */
  begin(caller: string, key: string, request: string): StoredAnswer | 'begun' | 'full' {
    const { answers } = this.#tables
    const nowMs = this.#clock.nowMs()
    const at: [string, string] = [caller, digestOf(key)]
    return this.#tables.transactionSync(() => {
      const known = answers.get(at)
      if (known !== undefined && nowMs - known.atMs < keptMs) return known
      if (rowCount(answers) >= answersMax) {
        for (const { key: old, value } of [...answers.getRange()])
          if (nowMs - value.atMs >= keptMs) answers.removeSync(old)
        if (rowCount(answers) >= answersMax) return 'full'
      }
      answers.putSync(at, { atMs: nowMs, request: digestOf(request), answer: null })
      return 'begun'
    })
  }

  /** Stores the answer; null removes the row, as nothing was changed. */
  end(caller: string, key: string, answer: string | null): void {
    const { answers } = this.#tables
    const at: [string, string] = [caller, digestOf(key)]
    this.#tables.transactionSync(() => {
      const begun = answers.get(at)
      if (answer === null) answers.removeSync(at)
      else if (begun !== undefined) answers.putSync(at, { ...begun, answer })
    })
  }
}
