// Whole runs of the benches on disk, `<results>/runs/<commit>/<start>/<bench>.json`, for `summary`.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StoredResult } from './bench.ts'
import type { BenchOptions } from './options.ts'
import { commitOf, readResult } from './report.ts'
import { regionOfNode, rewriteTables, runsMin, summarise } from './summary.ts'

/** The folder of a run that starts now, or why the run does not count. */
export function runFolder(
  results: string,
  { seconds, target }: BenchOptions,
): { readonly folder: string } | { readonly reason: string } {
  if (seconds !== undefined) return { reason: '--seconds makes its rounds shorter or longer' }
  if (target !== undefined) return { reason: 'what runs on the target is not known' }
  const commit = commitOf()
  if (!/^[0-9a-f]+$/.test(commit)) return { reason: `${commit} is no commit` }
  const start = new Date().toISOString().replaceAll(':', '-')
  return { folder: join(results, 'runs', commit, start) }
}

interface Written {
  readonly text: string
  readonly isWritten: boolean
}

/** Writes the tables of `document`; returns what to print, or why nothing was written. */
export function writeSummary(results: string, document: string, asked?: string): Written {
  const commit = asked ?? newestCommit(results)
  const runs = join(results, 'runs', commit ?? '')
  if (commit === undefined || !existsSync(runs))
    return { text: `no whole run of ${asked ?? 'any commit'} below ${results}`, isWritten: false }
  const byNode = new Map<string | null, StoredResult[]>()
  for (const result of resultsBelow(runs)) {
    const region = regionOfNode(readFileSync(document, 'utf8'), result.node)
    byNode.set(region, [...(byNode.get(region) ?? []), result])
  }
  const written = [...byNode].map(([region, own]) => writeRows(document, commit, region, own))
  const text = written.map((one) => one.text).join('\n')
  return { text, isWritten: written.some(({ isWritten }) => isWritten) }
}

function writeRows(
  document: string,
  commit: string,
  region: string | null,
  results: readonly StoredResult[],
): Written {
  const summary = summarise(results)
  if (typeof summary === 'string') return { text: summary, isWritten: false }
  const missing = summary.missing.map((one) => `  missing: ${one}`)
  if (summary.rows.size === 0) {
    const text = `${commit} has no bench with ${runsMin} whole runs; nothing written`
    return { text: [text, ...missing].join('\n'), isWritten: false }
  }
  writeFileSync(document, rewriteTables(readFileSync(document, 'utf8'), summary, region))
  const text = `${summary.rows.size} benches of ${commit} written to ${document}`
  return { text: [text, ...missing].join('\n'), isWritten: true }
}

function newestCommit(results: string): string | undefined {
  const runs = join(results, 'runs')
  if (!existsSync(runs)) return undefined
  const newest = (commit: string) => readdirSync(join(runs, commit)).sort().at(-1) ?? ''
  const byStart = (a: string, b: string) => (newest(a) < newest(b) ? -1 : 1)
  return readdirSync(runs).sort(byStart).at(-1)
}

function resultsBelow(folder: string): StoredResult[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.json'))
    .sort()
    .map((file) => readResult(join(folder, file)))
}
