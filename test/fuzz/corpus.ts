// The corpus of a target, one file: the inputs that together reach what the fuzzer has reached so
// far, and those by which defects were found, which stay. Each is a base64 text.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

interface Corpus {
  readonly defects: readonly Buffer[]
  readonly inputs: readonly Buffer[]
}

/** Of the sources: compiled files lie in dist. */
export const root = rootOf(dirname(fileURLToPath(import.meta.url)))

export function corpusFile(name: string): string {
  return join(root, 'test', 'fuzz', 'corpus', `${name}.json`)
}

export function readCorpus(name: string): Corpus {
  const path = corpusFile(name)
  if (!existsSync(path)) return { defects: [], inputs: [] }
  // Reason for the cast: only `writeCorpus` writes it.
  const { defects, inputs } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, string[]>
  return { defects: (defects ?? []).map(decoded), inputs: (inputs ?? []).map(decoded) }
}

/** The shortest first. */
export function writeCorpus(name: string, { defects, inputs }: Corpus): void {
  const texts = (list: readonly Buffer[]) =>
    [...new Set(list.map((bytes) => bytes.toString('base64')))].sort((a, b) => a.length - b.length)
  const content = { defects: texts(defects), inputs: texts(inputs) }
  writeFileSync(corpusFile(name), `${JSON.stringify(content, null, 2)}\n`)
}

function decoded(text: string): Buffer {
  return Buffer.from(text, 'base64')
}

function rootOf(start: string): string {
  let path = start
  while (!existsSync(join(path, 'package.json'))) path = dirname(path)
  return path
}
