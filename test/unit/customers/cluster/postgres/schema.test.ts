// The SQL of the shared tables: applied once, and with the constants of its callers.
import { describe, expect, it } from 'vitest'
import { eventsLease, runJump } from '../../../../../src/base/shared-log.ts'
import type { Queries } from '../../../../../src/customers/cluster/postgres/client.ts'
import { prepareSchema } from '../../../../../src/customers/cluster/postgres/schema.ts'

/** A database that remembers its meta row and every statement. */
class Database implements Queries {
  readonly statements: string[] = []
  #hashes: string[] | null = null

  async query<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    this.statements.push(text)
    if (text.startsWith('INSERT INTO meta')) this.#hashes = [String(values[2])]
    const rows = text.includes('to_regclass')
      ? [{ isThere: this.#hashes !== null }]
      : [{ format: 1, hashes: this.#hashes }]
    // Reason for the cast: the caller names the columns that it asked for.
    return rows as Row[]
  }
}

describe('the shared tables', () => {
  it('are made in one transaction, and not again by a gateway of the same SQL', async () => {
    const database = new Database()
    await prepareSchema(database)
    const made = database.statements.slice(1)
    expect(made[0]).toBe('BEGIN')
    expect(made.at(-1)).toBe('COMMIT')
    expect(made.filter((text) => text.includes('CREATE SCHEMA'))).toHaveLength(1)
    const before = database.statements.length
    await prepareSchema(database)
    expect(database.statements.slice(before).join()).not.toContain('CREATE')
  })

  it('fence and number events by the constants of the log', async () => {
    const database = new Database()
    await prepareSchema(database)
    const sql = database.statements.join('\n')
    expect(sql).toContain(`WHERE name = '${eventsLease}' AND term = p_term`)
    expect(sql).toContain(`next = next + ${runJump}\n`)
    expect(sql).toContain(`next = p_floor + ${runJump} WHERE`)
  })
})
