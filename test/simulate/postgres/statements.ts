// The statements of the gateways, as the simulated PostgreSQL runs them. Models of the SQL, not the
// SQL itself: test/cluster runs that on a real server. An unknown statement is an error, so that a
// statement that is new in src is noticed here.
import type { Run, Transaction } from './database.ts'
import { eventStatements } from './event-statements.ts'
import { arrayOf, nothing, type Rows, type Statement } from './wire.ts'

interface Head {
  readonly seq: number
  readonly hash: string
}

interface Entry {
  readonly hash: string
  readonly subject: string
}

interface StoredRecord {
  readonly seq: number
  readonly record: { readonly subscription: { label: string; createdAt: string } }
}

const one = (rows: readonly unknown[]): Rows => ({
  columns: [['?column?', 'int4']],
  rows: rows.map(() => [1]),
})

const schema: readonly [string, Run][] = [
  [
    `SELECT to_regclass('sluice.meta')`,
    (tx) => ({ columns: [['isThere', 'bool']], rows: [[tx.read('meta', '') !== undefined]] }),
  ],
  [
    'SELECT format, coalesce(to_json(m)',
    (tx) => {
      const meta = tx.read('meta', '') as { hashes: string[] } | undefined
      const columns: Rows['columns'] = [
        ['format', 'int4'],
        ['hashes', 'json'],
      ]
      return { columns, rows: meta === undefined ? [] : [[1, meta.hashes]] }
    },
  ],
  [
    'SELECT pg_advisory_xact_lock',
    async (tx, [number]) => {
      await tx.lock('advisory', number!)
      return nothing
    },
  ],
  ['-- ', () => nothing],
  [
    'INSERT INTO meta',
    async (tx, [, , hash]) => {
      const meta = (await tx.lock('meta', '')) as { hashes: string[] } | undefined
      await tx.write('meta', '', { hashes: [...(meta?.hashes ?? []), hash] })
      return nothing
    },
  ],
  [
    'SELECT cluster FROM meta',
    (tx) => ({
      columns: [['cluster', 'text']],
      rows: tx.read('meta', '') === undefined ? [] : [['cluster']],
    }),
  ],
]

const registry: readonly [string, Run][] = [
  [
    'SELECT seq, hash FROM head',
    (tx) => {
      const columns: Rows['columns'] = [
        ['seq', 'int8'],
        ['hash', 'text'],
      ]
      const head = tx.read('head', '') as Head | undefined
      return { columns, rows: head === undefined ? [] : [[head.seq, head.hash]] }
    },
  ],
  [
    'SELECT seq, hash, floor(extract',
    async (tx) => {
      const columns: Rows['columns'] = [
        ['seq', 'int8'],
        ['hash', 'text'],
        ['nowMs', 'int8'],
      ]
      const head = (await tx.lock('head', '')) as Head | undefined
      const rows = head === undefined ? [] : [[head.seq, head.hash, Math.floor(tx.server.nowMs())]]
      return { columns, rows }
    },
  ],
  [
    'INSERT INTO head',
    async (tx, [seq, hash]) => {
      if ((await tx.lock('head', '')) !== undefined) return one([])
      await tx.write('head', '', { seq: Number(seq), hash })
      return one([1])
    },
  ],
  [
    'UPDATE head SET seq = seq',
    async (tx) => {
      await tx.write('head', '', await tx.lock('head', ''))
      return nothing
    },
  ],
  [
    'WITH moved AS (UPDATE head',
    async (tx, [seq, hash]) => {
      await tx.write('head', '', { seq: Number(seq), hash })
      tx.notify('registry', seq!)
      return one([1])
    },
  ],
  [
    'SELECT a.entry, CASE json_typeof(r.record)',
    (tx, [seq, max]) => {
      const rows: unknown[][] = []
      for (let at = Number(seq) + 1; rows.length < Number(max); at++) {
        const entry = tx.read('audit', String(at)) as Entry | undefined
        if (entry === undefined) break
        const stored = tx.read('records', entry.subject) as StoredRecord | undefined
        rows.push([entry, stored?.seq === at ? stored.record : null])
      }
      const columns: Rows['columns'] = [
        ['entry', 'json'],
        ['record', 'json'],
      ]
      return { columns, rows }
    },
  ],
  [
    `SELECT entry->>'hash' AS hash FROM audit`,
    (tx, [seq]) => {
      const entry = tx.read('audit', seq!) as Entry | undefined
      return { columns: [['hash', 'text']], rows: entry === undefined ? [] : [[entry.hash]] }
    },
  ],
  [
    'SELECT 1 FROM audit WHERE seq = $1',
    (tx, [seq, hash]) => {
      const entry = tx.read('audit', seq!) as Entry | undefined
      return one(entry?.hash === hash ? [1] : [])
    },
  ],
  ['SELECT record FROM (', (tx, [ref]) => found(tx, ref!)],
  [
    'SELECT 1 FROM records WHERE id = $1',
    (tx, [id]) => one(tx.read('records', id!) === undefined ? [] : [1]),
  ],
  [
    'SELECT name, owner FROM names',
    (tx, [names, id]) => {
      const rows = arrayOf(names!)
        .map((name) => [name, tx.read('names', name)])
        .filter(([, owner]) => owner !== undefined && owner !== id)
      const columns: Rows['columns'] = [
        ['name', 'text'],
        ['owner', 'text'],
      ]
      return { columns, rows: rows.slice(0, 1) }
    },
  ],
]

const writes: readonly [string, Run][] = [
  [
    'INSERT INTO audit',
    async (tx, [seqs, entries]) => {
      const texts = arrayOf(entries!)
      for (const [index, seq] of arrayOf(seqs!).entries())
        await tx.insert('audit', seq, JSON.parse(texts[index]!))
      return nothing
    },
  ],
  [
    'DELETE FROM names WHERE owner',
    async (tx, [ids]) => {
      const owners = arrayOf(ids!)
      for (const [name, owner] of tx.scan('names'))
        if (owners.includes(String(owner))) await tx.write('names', name, undefined)
      return nothing
    },
  ],
  [
    'INSERT INTO records',
    async (tx, [ids, seqs, records]) => {
      const [numbers, texts] = [arrayOf(seqs!), arrayOf(records!)]
      for (const [index, id] of arrayOf(ids!).entries()) {
        const record = JSON.parse(texts[index]!)
        await tx.write('records', id, { seq: Number(numbers[index]), record })
      }
      return nothing
    },
  ],
  [
    'INSERT INTO names',
    async (tx, [names, owners]) => {
      const ids = arrayOf(owners!)
      for (const [index, name] of arrayOf(names!).entries())
        await tx.insert('names', name, ids[index])
      return nothing
    },
  ],
]

function found(tx: Transaction, ref: string): Rows {
  const byName = tx.read('names', `label:${ref}`) as string | undefined
  const ended = tx
    .scan('records')
    .map(([id, row]) => [id, row as StoredRecord] as const)
    .filter(([, { record }]) => record.subscription.label === ref)
    .map(([id, { record }]) => [record.subscription.createdAt + id, record] as const)
    .toSorted(([a], [b]) => (a < b ? 1 : -1))
  const record =
    (tx.read('records', ref) as StoredRecord | undefined)?.record ??
    (tx.read('records', byName ?? '') as StoredRecord | undefined)?.record ??
    ended[0]?.[1]
  return { columns: [['record', 'json']], rows: record === undefined ? [] : [[record]] }
}

const known: readonly [string, Run][] = [...eventStatements, ...schema, ...registry, ...writes]

/** Runs a statement in a transaction. */
export function runStatement(tx: Transaction, { text, values }: Statement): Rows | Promise<Rows> {
  const flat = text.trim().replaceAll(/\s+/g, ' ')
  if (flat === 'SELECT 1') return one([1])
  const run = known.find(([start]) => flat.startsWith(start))?.[1]
  if (run === undefined) throw new Error(`the simulation does not know the statement: ${flat}`)
  return run(tx, values)
}
