// Writes the files of a finished bench: JSON, HTML report, plots, .hgrm, Prometheus text.
// Each file is renamed into place when complete, so no reader sees half of one.
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { plotSvg } from './plot.ts'
import { type ReportParts, reportHtml } from './report.ts'
import { prometheusText, type Result } from './result.ts'

export interface KeepOptions extends ReportParts {
  /** Folder of `--out`. */
  readonly folder: string
  /** File of `--prom`. */
  readonly promFile?: string | undefined
  /** HdrHistogram texts by name: `<stem>-<name>.hgrm`. */
  readonly hgrm?: Readonly<Record<string, string>>
}

/** Where results go without `--out`. */
export const defaultFolder = 'sluice-bench'

/** Writes all files of a result; returns the path of the JSON file. */
export function keepResult(result: Result, options: KeepOptions): string {
  const { folder, plots, hgrm = {}, promFile } = options
  mkdirSync(folder, { recursive: true })
  const stem = join(folder, `${result.verb}-${stampOf(result.startedAt)}`)
  const path = `${stem}.json`
  write(path, `${JSON.stringify(result, null, 2)}\n`)
  write(`${stem}.html`, reportHtml(result, options))
  plots.forEach((plot, index) => {
    write(index === 0 ? `${stem}.svg` : `${stem}-${index + 1}.svg`, plotSvg(plot))
  })
  for (const [name, text] of Object.entries(hgrm)) write(`${stem}-${name}.hgrm`, text)
  if (promFile !== undefined) {
    mkdirSync(dirname(promFile), { recursive: true })
    write(promFile, prometheusText(result))
  }
  return path
}

/** `20261115-195406-123` of an ISO time: sorts by time and is a file name everywhere. */
function stampOf(iso: string): string {
  return iso.replaceAll(/[-:Z]/g, '').replace('T', '-').replace('.', '-')
}

function write(path: string, text: string): void {
  const fresh = `${path}.${process.pid}.tmp`
  writeFileSync(fresh, text)
  renameSync(fresh, path)
}
