// What ClickHouse answers to a list of expressions and queries over one fixed set of rows: the
// lists are in test/golden/clickhouse, one JSON object per line. `test/long/record-answers.test.ts`
// asks a ClickHouse server and writes the answers down again.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cell, RowBatch } from '../../src/indexer/engine.ts'
import { type Table, tables } from '../../src/indexer/tables.ts'
import { makeRows } from './generated-rows.ts'

export interface Recorded {
  /** After SELECT for an expression; the whole statement for a query. */
  readonly sql: string
  readonly types?: readonly string[]
  readonly rows?: readonly (readonly unknown[])[]
  /** The code where ClickHouse refuses. */
  readonly error?: number
  /** Server 18.16 lacks something in it, or answers otherwise. */
  readonly old?: 'absent' | 'differs'
}

export const lists = ['expressions', 'queries'] as const
export type ListName = (typeof lists)[number]

export const answersPlan = {
  seed: 11,
  slots: 30,
  transactionsPerSlot: 8,
  blocks: 25,
  tips: 40,
  usage: 24,
}
/** The caller, whose rows of `usage` are visible. */
export const answersCaller = 'sub-alice'

export function readAnswers(list: ListName): Recorded[] {
  return readFileSync(pathOf(list), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Recorded)
}

export function writeAnswers(list: ListName, rows: readonly Recorded[]): void {
  writeFileSync(pathOf(list), rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
}

export function statementOf(list: ListName, { sql }: Recorded): string {
  return list === 'expressions' ? `SELECT ${sql}` : sql
}

export interface Answered {
  readonly text: string
  readonly error: { readonly code: number; readonly message: string } | null
}

/** Asks a ClickHouse server over HTTP; the URL's path is the database. */
export async function askServer(url: string, statement: string): Promise<Answered> {
  const { origin, username, password } = new URL(url)
  const search = new URLSearchParams({
    default_format: 'JSONCompact',
    output_format_json_quote_64bit_integers: '1',
    database: /^CREATE DATABASE/.test(statement) ? 'default' : databaseOf(url),
  })
  const answer = await fetch(`${origin}/?${search}`, {
    method: 'POST',
    body: statement,
    headers: { 'X-ClickHouse-User': username || 'default', 'X-ClickHouse-Key': password },
  })
  const text = await answer.text()
  const error = answer.ok
    ? null
    : { code: Number(/Code: (\d+)/.exec(text)?.[1] ?? 0), message: text }
  return { text, error }
}

function databaseOf(url: string): string {
  return new URL(url).pathname.slice(1) || 'chain'
}

/** Makes the tables on a server; true when it is one before DateTime64, Debian's. */
export async function prepareServer(url: string): Promise<boolean> {
  await askServer(url, `CREATE DATABASE IF NOT EXISTS ${databaseOf(url)}`)
  const { text } = await askServer(url, 'SELECT version() FORMAT TabSeparated')
  const isOld = Number(text.split('.')[0]) < 20
  for (const statement of tableStatements(databaseOf(url), !isOld)) {
    const { error } = await askServer(url, statement)
    if (error !== null) throw new Error(`${error.message} for ${statement.slice(0, 80)}`)
  }
  return isOld
}

/** A JSONCompact answer; numbers as text, so that quoting of 64 bits does not matter. */
export function readAnswer(text: string): Pick<Recorded, 'types' | 'rows'> {
  const { meta, data } = JSON.parse(text) as { meta: { type: string }[]; data: unknown[][] }
  return { types: meta.map(({ type }) => type), rows: data.map((row) => row.map(asText)) }
}

function asText(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asText)
  if (value === null || typeof value === 'boolean') return value
  if (typeof value !== 'object') return String(value)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, asText(inner)]))
}

export interface Compared {
  /** Equal values with equal types, equal values only, an error, or something else. */
  readonly verdict: 'equal' | 'other type' | 'refused' | 'other'
  readonly note: string
}

export function compared(
  recorded: Recorded,
  text: string,
  error: { readonly code: number; readonly message: string } | null,
): Compared {
  if (error !== null)
    return { verdict: 'refused', note: `${recorded.sql}: ${error.code} ${error.message}` }
  const { rows, types } = readAnswer(text)
  if (recorded.error !== undefined)
    return { verdict: 'other', note: `${recorded.sql}: answered, ClickHouse has ${recorded.error}` }
  if (!isSame(rows, recorded.rows))
    return {
      verdict: 'other',
      note: `${recorded.sql}: ${JSON.stringify(rows)}, not ${JSON.stringify(recorded.rows)}`,
    }
  const isSameType = JSON.stringify(types) === JSON.stringify(recorded.types)
  const note = `${recorded.sql}: ${types?.join()} not ${recorded.types?.join()}`
  return { verdict: isSameType ? 'equal' : 'other type', note }
}

/** The last digits of a float depend on the order of additions and on the library. */
const tolerance = 1e-14

function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((item, at) => isSame(item, b[at]))
  if ((isFloat(a) && isNumber(b)) || (isNumber(a) && isFloat(b))) {
    const [x, y] = [Number(a), Number(b)]
    return Math.abs(x - y) <= tolerance * Math.max(Math.abs(x), Math.abs(y))
  }
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  const keys = Object.keys(a)
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>]
  return keys.join() === Object.keys(b).join() && keys.every((key) => isSame(left[key], right[key]))
}

function isFloat(value: unknown): boolean {
  return typeof value === 'string' && /^-?\d+\.\d{14,}$/.test(value)
}

/** A rounded neighbour of a float may have few digits: `1` beside `0.9999999999999998`. */
function isNumber(value: unknown): boolean {
  return typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value)
}

/** Statements that make the tables with their rows on a ClickHouse server. */
function* tableStatements(database: string, hasDateTime64: boolean): Iterable<string> {
  for (const batch of makeRows(answersPlan)) {
    const { columns }: Table = tables[batch.table]
    const shown = Object.entries(columns).filter(([name]) => name !== 'subscription')
    const list = shown.map(([name, type]) => `\`${name}\` ${typeOn(type, hasDateTime64)}`)
    const table = `${database}.${batch.table}`
    yield `DROP TABLE IF EXISTS ${table}`
    yield `CREATE TABLE ${table} (${list.join(', ')}) ENGINE = MergeTree ORDER BY tuple()`
    const rows = rowsOf(batch, hasDateTime64).filter(
      ({ subscription = answersCaller }) => subscription === answersCaller,
    )
    yield `INSERT INTO ${table} FORMAT JSONEachRow ${rows.map(lineOf).join('\n')}`
  }
}

function typeOn(type: string, hasDateTime64: boolean): string {
  return hasDateTime64 ? type : type.replace(/DateTime64\(\d\)/, 'DateTime')
}

function rowsOf(batch: RowBatch, hasDateTime64: boolean): Record<string, Cell>[] {
  const { columns }: Table = tables[batch.table]
  return batch.columns[0]!.map((_, row) =>
    Object.fromEntries(
      Object.entries(columns).map(([name, type], at) => [
        name,
        timeText(batch.columns[at]![row]!, type, hasDateTime64),
      ]),
    ),
  )
}

function timeText(cell: Cell, type: string, hasDateTime64: boolean): Cell {
  const digits = Number(/DateTime64\((\d)\)/.exec(type)?.[1] ?? 0)
  if (digits === 0 || cell === null) return cell
  const unit = 10n ** BigInt(digits)
  const count = BigInt(cell as number | bigint)
  const second = new Date(Number(count / unit) * 1000).toISOString().slice(0, 19)
  const fraction = hasDateTime64 ? `.${String(count % unit).padStart(digits, '0')}` : ''
  return `${second.replace('T', ' ')}${fraction}`
}

function lineOf({ subscription: _, ...row }: Record<string, Cell>): string {
  return JSON.stringify(row, (_, cell: unknown) => (typeof cell === 'bigint' ? `${cell}` : cell))
}

function pathOf(list: ListName): string {
  return join(import.meta.dirname, '..', 'golden', 'clickhouse', `${list}.jsonl`)
}
