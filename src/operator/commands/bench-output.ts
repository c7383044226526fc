// What the verbs of `sluice bench` that measure have in common: flags, files, exit code.
// Exit 0 means: complete, fit, and every condition of --require holds.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { defaultFolder, type KeepOptions, keepResult } from '../../loadtest/keep-result.ts'
import type { Figure, Result } from '../../loadtest/result.ts'
import { resultTable, verdictLines } from '../../loadtest/result-text.ts'
import { type Call, type FlagSpec, flagOf, type Report } from './verb.ts'

export const outputFlags: readonly FlagSpec[] = [
  { name: 'out', value: 'folder', doc: `Folder of the result files [./${defaultFolder}].` },
  { name: 'prom', value: 'file', doc: 'Also write the figures for node-exporter (textfile).' },
]

export interface BenchFiles extends Omit<KeepOptions, 'folder' | 'promFile'> {
  /** Sentences on conditions that do not hold; each makes the exit code 1. */
  readonly failed?: readonly string[]
  /** Figures of the printed table; left out, all. */
  readonly shown?: readonly Figure[]
  /** More text under the table. */
  readonly more?: readonly string[]
}

/** Writes the files of a result and reports it. */
export function reportResult(call: Call, result: Result, files: BenchFiles): Outcome<Report> {
  const { failed = [], more = [], shown = result.figures } = files
  let path: string
  try {
    const folder = flagOf(call, 'out') ?? defaultFolder
    path = keepResult(result, { ...files, folder, promFile: flagOf(call, 'prom') })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return refuse('unavailable', 'no-result-file', `the result cannot be written: ${reason}`)
  }
  const problems = [...verdictLines(result), ...failed.map((line) => `FAILED: ${line}`)]
  const text = [
    resultTable({ figures: shown }),
    ...more,
    ...problems,
    `result: ${path} (and .html, .svg)`,
  ].join('\n')
  return accept({
    json: { ...result, failed, path },
    text,
    exit: problems.length === 0 ? 0 : 1,
  })
}
