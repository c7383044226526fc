// Reads the project's own tree for the tests that check its rules.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

export interface SourceFile {
  /** Path from the project's root, with forward slashes. */
  readonly path: string
  readonly text: string
  readonly lines: number
  readonly imports: readonly Import[]
}

export interface Import {
  /** A path from the root for relative imports, else the package's name. */
  readonly target: string
  readonly isPackage: boolean
}

/** Every TypeScript file below the given folders. */
export function sourceFiles(...folders: string[]): SourceFile[] {
  const present = folders.map((folder) => join(root, folder)).filter((path) => existsSync(path))
  return present.flatMap(walk).map(read)
}

function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return walk(path)
    return entry.name.endsWith('.ts') ? [path] : []
  })
}

function read(absolute: string): SourceFile {
  const path = relative(root, absolute).split('\\').join('/')
  const text = readFileSync(absolute, 'utf8')
  return { path, text, lines: text.split('\n').length - 1, imports: importsOf(path, text) }
}

// The compiler has no parser to import, so imports are found by their form: `from '…'` after an
// import or export, `import '…'`, and `import('…')`.
const importForms =
  /(?:^|\n)\s*(?:import|export)\s[^'"`;]*?from\s*'([^']+)'|(?:^|\n)\s*import\s*'([^']+)'|\bimport\(\s*'([^']+)'\s*\)/g

export function importsOf(path: string, text: string): Import[] {
  return [...text.matchAll(importForms)].map((match) => {
    const name = match[1] ?? match[2] ?? match[3] ?? ''
    if (!name.startsWith('.')) return { target: packageOf(name), isPackage: true }
    return { target: posix.normalize(posix.join(posix.dirname(path), name)), isPackage: false }
  })
}

function packageOf(name: string): string {
  if (name.startsWith('node:')) return name
  const parts = name.split('/')
  return name.startsWith('@') ? parts.slice(0, 2).join('/') : (parts[0] ?? name)
}

/** Each import that closes a cycle, as the path of files it closes (depth-first search). */
export function cyclesIn(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const done = new Set<string>()
  const found: string[] = []
  const visit = (path: string, above: readonly string[]): void => {
    const start = above.indexOf(path)
    if (start !== -1) found.push([...above.slice(start), path].join(' -> '))
    if (start !== -1 || done.has(path)) return
    for (const { target } of byPath.get(path)?.imports ?? []) visit(target, [...above, path])
    done.add(path)
  }
  for (const { path } of files) visit(path, [])
  return found
}
