// Leases, the shared event log and budgets, as leases.sql, event-log.sql and ledger.sql have them.
import { randomBytes } from 'node:crypto'
import type { SpentRow } from '../../../src/customers/cluster/ports.ts'
import { LedgerModel } from '../../testkit/ledger-model.ts'
import type { Run, Transaction } from './database.ts'
import { arrayOf, nothing, type Rows } from './wire.ts'

interface LeaseRow {
  readonly term: number
  readonly holder: string
  readonly until: number
}

interface EventHead {
  readonly run: string
  readonly next: number
  readonly origin: string
  readonly isReplicated: boolean
}

const runJump = 65_536
const never = Number.NEGATIVE_INFINITY
const newRun = () => randomBytes(8).toString('hex')
const leaseOf = (tx: Transaction, name: string) => tx.read('leases', name) as LeaseRow | undefined
const headOf = (tx: Transaction) => tx.read('event_head', '') as EventHead | undefined

async function holdLeases(tx: Transaction, values: readonly (string | null)[]): Promise<Rows> {
  const [names, holder, , ttlMs, max] = values
  const nowMs = tx.server.nowMs()
  const until = nowMs + Number(ttlMs)
  const wanted = arrayOf(names!).toSorted()
  for (const name of wanted)
    if (leaseOf(tx, name) === undefined && (await tx.lock('leases', name)) === undefined)
      await tx.write('leases', name, { term: 0, holder: '', until: never })
  const isMine = (name: string) => {
    const row = leaseOf(tx, name)!
    return row.holder === holder && row.until > nowMs
  }
  let held = 0
  for (const name of wanted) {
    if (!isMine(name)) continue
    await tx.lock('leases', name)
    // As it is once whoever had locked it is done.
    if (!isMine(name)) continue
    await tx.write('leases', name, { ...leaseOf(tx, name)!, until })
    held++
  }
  for (const name of wanted) {
    if (held >= Number(max)) break
    if (leaseOf(tx, name)!.until > nowMs || !tx.isFree('leases', name)) continue
    const term = Math.max(leaseOf(tx, name)!.term + 1, Math.floor(nowMs))
    await tx.write('leases', name, { term, holder, until })
    held++
  }
  const columns: Rows['columns'] = [
    ['name', 'text'],
    ['term', 'int8'],
  ]
  return { columns, rows: wanted.filter(isMine).map((name) => [name, leaseOf(tx, name)!.term]) }
}

async function appendEvents(tx: Transaction, values: readonly (string | null)[]): Promise<Rows> {
  const [term, holder, first, frames] = values
  const done = (isDone: boolean): Rows => ({ columns: [['done', 'bool']], rows: [[isDone]] })
  const lease = (await tx.lock('leases', 'events')) as LeaseRow | undefined
  const isHeld = lease?.term === Number(term) && lease.holder === holder
  if (!isHeld || lease.until <= tx.server.nowMs()) return done(false)
  let head = (await tx.lock('event_head', '')) as EventHead
  const origin = tx.server.origin()
  if (head.origin !== '' && head.origin !== origin && !head.isReplicated)
    head = { ...head, origin, run: newRun(), next: head.next + runJump }
  const isNext = head.next === Number(first)
  const given = isNext ? arrayOf(frames!).map((text) => Buffer.from(text.slice(2), 'hex')) : []
  if (isNext) {
    const isReplicated = tx.server.isSynchronous
    head = { ...head, next: head.next + given.length, origin, isReplicated }
  }
  await tx.write('event_head', '', head)
  for (const [index, frame] of given.entries())
    await tx.write('event_frames', String(Number(first) + index), frame)
  if (isNext) tx.notify('events', '')
  return done(isNext)
}

/** Where the frames begin that end at the head and follow each other. */
function startOf(tx: Transaction, count: number): Rows {
  const head = headOf(tx)
  const columns: Rows['columns'] = [
    ['run', 'text'],
    ['next', 'int8'],
    ['first', 'int8'],
  ]
  if (head === undefined) return { columns, rows: [] }
  let first = head.next
  while (first > head.next - count && tx.read('event_frames', String(first - 1)) !== undefined)
    first--
  return { columns, rows: [[head.run, head.next, first]] }
}

/** In order; a new run leaves numbers out. */
function framesAfter(tx: Transaction, after: number, max: number): Rows {
  const seqs = tx.scan('event_frames').map(([seq]) => Number(seq))
  const wanted = seqs.filter((seq) => seq > after).toSorted((a, b) => a - b)
  const columns: Rows['columns'] = [
    ['seq', 'int8'],
    ['frame', 'bytea'],
  ]
  const rows = wanted.slice(0, max).map((seq) => [seq, tx.read('event_frames', String(seq))])
  return { columns, rows }
}

/** The model of the ledger is not part of a transaction: it is as durable as an unlogged table. */
async function settle(tx: Transaction, values: readonly (string | null)[]): Promise<Rows> {
  const [session, number, ids, ...lists] = values
  const [rates, bursts, spent, left, wanted] = lists.map((list) => arrayOf(list).map(Number))
  const rows = arrayOf(ids!).map(
    (id, index): SpentRow => ({
      id,
      perSecond: rates![index]!,
      burst: bursts![index]!,
      spent: spent![index]!,
      left: left![index]!,
      wanted: wanted![index]!,
    }),
  )
  const ledger = ((await tx.lock('budgets', '')) as LedgerModel | undefined) ?? new LedgerModel()
  const settled = ledger.settle(session!, Number(number), rows, tx.server.nowMs())
  await tx.write('budgets', '', ledger)
  return {
    columns: [
      ['id', 'text'],
      ['kind', 'text'],
      ['granted', 'float8'],
      ['sharers', 'int4'],
      ['debt', 'float8'],
    ],
    rows: settled.map((one) => [one.id, one.kind, one.granted, one.sharers, one.debt]),
  }
}

export const eventStatements: readonly [string, Run][] = [
  [
    '-- The event log.',
    async (tx) => {
      const head = { run: newRun(), next: 1, origin: '', isReplicated: false }
      if (headOf(tx) === undefined) await tx.write('event_head', '', head)
      return nothing
    },
  ],
  ['SELECT name, term FROM hold_leases', holdLeases],
  [
    'UPDATE leases SET until',
    async (tx, [name, holder, term]) => {
      const row = (await tx.lock('leases', name!)) as LeaseRow | undefined
      if (row?.holder === holder && String(row?.term) === term)
        await tx.write('leases', name!, { ...row, until: never })
      return nothing
    },
  ],
  [
    'SELECT count(*) AS live',
    (tx, [prefix, name]) => {
      const live = tx.scan('leases').filter(([one, row]) => {
        return one.startsWith(prefix!) && (row as LeaseRow).until > tx.server.nowMs()
      })
      const before = live.filter(([one]) => one < name!)
      const columns: Rows['columns'] = [
        ['live', 'int8'],
        ['before', 'int8'],
      ]
      return { columns, rows: [[live.length, before.length]] }
    },
  ],
  // Once an hour: longer than a seed.
  ['DELETE FROM leases', () => nothing],
  [
    'SELECT run, next FROM event_head',
    (tx) => {
      const columns: Rows['columns'] = [
        ['run', 'text'],
        ['next', 'int8'],
      ]
      const head = headOf(tx)
      return { columns, rows: head === undefined ? [] : [[head.run, head.next]] }
    },
  ],
  ['WITH head AS (SELECT run, next FROM event_head)', (tx, [count]) => startOf(tx, Number(count))],
  [
    'SELECT seq, frame FROM event_frames',
    (tx, [after, max]) => framesAfter(tx, Number(after), Number(max)),
  ],
  ['SELECT append_events', appendEvents],
  [
    'SELECT renumber_events',
    async (tx, [run, floor]) => {
      const head = (await tx.lock('event_head', '')) as EventHead
      if (head.run === run && head.next < Number(floor))
        await tx.write('event_head', '', { ...head, run: newRun(), next: Number(floor) + runJump })
      tx.notify('events', '')
      return nothing
    },
  ],
  ['SELECT * FROM settle', settle],
]
