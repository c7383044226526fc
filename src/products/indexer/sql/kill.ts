// Parses `KILL QUERY WHERE query_id = 'x' [AND user = 'y'] [SYNC | ASYNC | TEST]`. Thread: any
// (pure). The caller checks who owns the queries.
import { type Checked, checked, fail } from '../exceptions.ts'
import { Cursor } from './cursor.ts'
import type { Reading } from './reading.ts'

export interface Kill {
  /** Null: all queries. */
  readonly ids: readonly string[] | null
  /** Null: the caller. */
  readonly user: string | null
  /** Only lists the queries that would be killed. */
  readonly isTest: boolean
}

export function readKill(reading: Reading): Checked<Kill> {
  const cursor = new Cursor(reading)
  const begins = cursor.word('KILL') !== '' && cursor.word('QUERY') !== ''
  if (!begins || cursor.word('WHERE') === '') return unclear()
  let ids: readonly string[] | null = null
  let user: string | null = null
  do {
    const name = cursor.word('QUERY_ID', 'USER')
    const values = name === '' ? null : valuesAt(cursor)
    if (values === null) return unclear()
    if (name === 'QUERY_ID') ids = values
    else if (values.length === 1) user = values[0]!
    else return unclear()
  } while (cursor.word('AND') !== '')
  const mode = cursor.word('SYNC', 'ASYNC', 'TEST')
  return cursor.isAtEnd ? checked({ ids, user, isTest: mode === 'TEST' }) : unclear()
}

/** `= 'x'` or `IN ('x', 'y')`. */
function valuesAt(cursor: Cursor): readonly string[] | null {
  if (cursor.symbol('=')) {
    const value = cursor.string()
    return value === null ? null : [value]
  }
  if (cursor.word('IN') === '' || !cursor.symbol('(')) return null
  const values: string[] = []
  do {
    const value = cursor.string()
    if (value === null) return null
    values.push(value)
  } while (cursor.symbol(','))
  return cursor.symbol(')') ? values : null
}

function unclear() {
  return fail('SYNTAX_ERROR', "queries are killed with KILL QUERY WHERE query_id = '…'")
}
