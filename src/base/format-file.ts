// Keeps the format number of a folder of stored files in its `format.json`.
// The number rises only with a converter: it is one more than there are converters. A folder with a
// higher number was written by a later release and is refused before anything in it is touched.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Fault, messageOf } from './errors.ts'
import { isCount, isText, objectOf } from './shape.ts'

/**
 * Converts the files that the folder has from one format to the next. After a crash it runs again,
 * also on files that it has converted.
 */
export type Converter = (folder: string) => void | Promise<void>

interface Format {
  readonly format: number
  /** The release that wrote this number. */
  readonly release: string
}

/** Release 0.2.0 wrote no file. */
const first: Format = { format: 1, release: '0.2.0' }
const isFormat = objectOf({ format: isCount, release: isText })

/**
 * Converts the folder to the format of this release; item 0 of `converters` starts from format 1.
 * Throws a `Fault` when a later release wrote it.
 */
export async function prepareFormat(
  folder: string,
  release: string,
  converters: readonly Converter[],
): Promise<void> {
  const file = join(folder, 'format.json')
  const here = converters.length + 1
  const stored = readFormat(file)
  const { format, release: writer } = stored ?? first
  if (format > here)
    throw new Fault(
      'data-format',
      `${file} has format ${format}, written by release ${writer}; this release, ${release}, ` +
        `reads up to format ${here}: start a release that is at least as new`,
    )
  if (stored === null && here === format) writeFormat(file, { format, release })
  for (let from = format; from < here; from++) {
    await converters[from - 1]!(folder)
    writeFormat(file, { format: from + 1, release })
  }
}

function readFormat(file: string): Format | null {
  let value: unknown
  try {
    value = JSON.parse(readFileSync(file, 'utf8'))
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null
    if (!(cause instanceof SyntaxError)) throw new Fault('data-format', messageOf(cause), { cause })
  }
  // Reason for the cast: the shape was just checked.
  if (isFormat(value) && (value as Format).format >= 1) return value as Format
  throw new Fault('data-format', `${file} is damaged: restore it from a backup`)
}

function writeFormat(file: string, format: Format): void {
  const fresh = `${file}.${process.pid}`
  try {
    writeFileSync(fresh, `${JSON.stringify(format)}\n`, { mode: 0o600, flush: true })
    renameSync(fresh, file)
  } catch (cause) {
    throw new Fault('data-format', `${file} cannot be written: ${messageOf(cause)}`, { cause })
  }
}
