import { describe, expect, it } from 'vitest'
import {
  type AuditEntry,
  type AuditHead,
  emptyHead,
  nextEntry,
  recordDigest,
  verifyAudit,
} from '../../../../src/customers/subscriptions/audit.ts'

const records = new Map<string, unknown>([
  ['sub_a', { plan: 'standard', state: 'suspended' }],
  ['sub_b', { plan: 'standard', state: 'active' }],
])

/** Add a, add b, suspend a. */
function chain(): AuditEntry[] {
  const facts = (subject: string, before: unknown, after: unknown) => ({
    at: '2026-01-01T00:00:00.000Z',
    who: 'olga',
    what: 'x',
    subject,
    before: before === null ? null : recordDigest(before),
    after: recordDigest(after),
    reason: '',
  })
  const first = { plan: 'standard', state: 'active' }
  const entries: AuditEntry[] = []
  let head: AuditHead = emptyHead
  for (const [subject, before, after] of [
    ['sub_a', null, first],
    ['sub_b', null, records.get('sub_b')],
    ['sub_a', first, records.get('sub_a')],
  ] as const) {
    const entry = nextEntry(head, facts(subject, before, after))
    entries.push(entry)
    head = entry
  }
  return entries
}

function verify(entries: readonly AuditEntry[], state: ReadonlyMap<string, unknown> = records) {
  return verifyAudit(entries, chain()[2]!, state)
}

describe('the audit chain', () => {
  it('verifies as written', () => {
    expect(verify(chain())).toEqual({ ok: true, entries: 3, head: chain()[2]!.hash })
    expect(verifyAudit([], emptyHead, [])).toMatchObject({ ok: true, entries: 0 })
  })

  it.each(['at', 'who', 'what', 'subject', 'before', 'after', 'reason'] as const)(
    'detects an altered %s',
    (field) => {
      const entries = chain()
      entries[1] = { ...entries[1]!, [field]: 'forged' }
      expect(verify(entries)).toMatchObject({ ok: false, problem: 'entry 2 was altered' })
    },
  )

  it('detects an entry that was rewritten with a matching hash', () => {
    const entries = chain()
    const { seq: _s, previous: _p, hash: _h, ...facts } = entries[1]!
    entries[1] = nextEntry(entries[0]!, { ...facts, who: 'mallory' })
    expect(verify(entries)).toMatchObject({
      ok: false,
      problem: 'entry 3 does not follow the one before',
    })
  })

  it('detects a missing entry, a swapped pair and a truncated end', () => {
    const [a, b, c] = chain() as [AuditEntry, AuditEntry, AuditEntry]
    expect(verify([a, c])).toMatchObject({ ok: false, problem: 'entry 2 is missing' })
    expect(verify([b, a, c]).ok).toBe(false)
    expect(verify([a, b])).toMatchObject({
      ok: false,
      problem: 'the table ends at entry 2, its head is 3',
    })
  })

  it('detects a record that was changed, added or removed without an entry', () => {
    const changed = new Map(records).set('sub_a', { plan: 'unlimited', state: 'suspended' })
    expect(verify(chain(), changed)).toMatchObject({
      problem: 'the record of sub_a does not match entry 3',
    })
    const added = new Map(records).set('sub_c', {})
    expect(verify(chain(), added)).toMatchObject({ problem: 'sub_c has a record and no entry' })
    const removed = new Map([['sub_a', records.get('sub_a')]])
    expect(verify(chain(), removed)).toMatchObject({
      problem: 'sub_b has entries and no record',
    })
  })

  it('computes the same digest for any order of fields', () => {
    expect(recordDigest({ a: 1, b: { c: 2, d: [3] } })).toBe(
      recordDigest({ b: { d: [3], c: 2 }, a: 1 }),
    )
  })
})
