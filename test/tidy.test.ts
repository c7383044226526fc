// Checks the tree's own rules: imports, one package one importer, sizes, workers, text.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { budgets, groups, importers, mayImport, programs } from './testkit/import-tables.ts'
import { cyclesIn, importsOf, root, type SourceFile, sourceFiles } from './testkit/tree.ts'

const linesMax = 600
const workerLinesMax = 40
const mainLinesMax = 100
const lineLengthMax = 100

const product = sourceFiles('src', 'workers').filter(({ path }) => !path.includes('/wasm/'))
const everything = sourceFiles('src', 'workers', 'bench', 'test')
/** `npm run docs` loads these from dist by their names. */
const scripts: SourceFile[] = [
  'base/telemetry/meters-docs.ts',
  'operator/topology/lifecycle.ts',
].map((name) => ({
  path: 'scripts/docs.mjs',
  text: readFileSync(join(root, 'scripts', 'docs.mjs'), 'utf8'),
  lines: 0,
  imports: [{ target: `src/${name}`, isPackage: false }],
}))
/** What users of the package import. */
const publicFiles: ReadonlySet<string> = new Set([
  'src/client/client.ts',
  'src/client/frames.ts',
  'src/client/node-socket.ts',
  'src/client/node.ts',
])
const entryPoints: readonly string[] = [
  'src/main.ts',
  'src/live/main.ts',
  'src/live/solana.ts',
  ...publicFiles,
  ...product.filter(({ path }) => path.startsWith('workers/')).map(({ path }) => path),
  'src/base/telemetry/meters-docs.ts',
  // A declaration file is read by the compiler alone.
  'src/streams/analysis/webassembly.d.ts',
]

describe('the tree', () => {
  test('imports only from the modules that its table allows', () => {
    const wrong = product.flatMap((file) =>
      file.imports
        .filter((found) => !found.isPackage && !allows(file.path, found.target))
        .map((found) => `${file.path} imports ${found.target}`),
    )
    expect(wrong).toEqual([])
  })

  test('has the groups of its table on the first level of src, and the programs', () => {
    const known = new Set<string>([...groups, ...Object.keys(programs)])
    const names = new Set(product.map(({ path }) => groupOf(path)))
    names.delete('workers')
    expect([...names].sort()).toEqual([...known].sort())
  })

  test('imports from a group only what is below it, apart from what its table names', () => {
    const rank = new Map<string, number>(groups.map((name, index) => [name, index]))
    // The map of the service is read by those who draw and start it.
    rank.set('topology', rank.get('operator')!)
    const upward = product.flatMap((file) =>
      file.imports
        .filter(({ isPackage, target }) => !isPackage && isUpward(rank, file.path, target))
        .map(({ target }) => `${file.path} imports ${target}`),
    )
    expect(upward).toEqual([])
  })

  test('keeps every module within its budget of lines', () => {
    const over = Object.entries(budgets).flatMap(([names, budget]) => {
      const own = product.filter(({ path }) => names.split(' ').includes(groupOf(path)))
      const lines = own.reduce((sum, file) => sum + file.lines, 0)
      return lines > budget ? [`${names}: ${lines} lines, budget ${budget}`] : []
    })
    expect(over).toEqual([])
  })

  test('imports a package in one file', () => {
    const wrong = product.flatMap((file) =>
      file.imports
        .filter((found) => found.isPackage && !isImporter(found.target, file.path))
        .map((found) => `${file.path} imports ${found.target}`),
    )
    expect(wrong).toEqual([])
  })

  test('reads the environment in one file', () => {
    // Setting a variable for a native package is not reading.
    const reads = /process\.env\b(?!\.\w+ = )/
    const readers = product.filter((file) => reads.test(file.text)).map((f) => f.path)
    expect(readers.filter((path) => path !== 'src/operator/config/load.ts')).toEqual([])
  })

  test('keeps files, workers and main short', () => {
    const long = everything
      .filter((file) => file.lines > sizeLimit(file))
      .map((file) => `${file.path}: ${file.lines} lines`)
    expect(long).toEqual([])
  })

  test('keeps lines within 100 columns', () => {
    const wide = product.flatMap((file) =>
      file.text
        .split('\n')
        .map((line, index) => ({ line, at: `${file.path}:${index + 1}` }))
        .filter(({ line }) => line.length > lineLengthMax && !/https?:\/\/|^\/\/ biome/.test(line))
        .map(({ at }) => at),
    )
    expect(wide).toEqual([])
  })

  test('opens every file with a comment that says what it does', () => {
    const silent = product.filter((file) => !/^(#!.*\n)?\/\/ \S/.test(file.text))
    expect(silent.map((file) => file.path)).toEqual([])
  })

  test('names a thread in a header only where it is not the main thread', () => {
    const ritual = product.filter((file) => /^\/\/.*\bThread: (main|any)\./m.test(file.text))
    expect(ritual.map((file) => file.path)).toEqual([])
  })

  test('uses every file of src from an entry point', () => {
    const reached = new Set<string>()
    const used = scripts.flatMap(({ imports }) => imports.map(({ target }) => target))
    const waiting = [...entryPoints, ...used]
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      if (reached.has(path)) continue
      reached.add(path)
      const file = product.find((one) => one.path === path)
      waiting.push(...(file?.imports ?? []).map(({ target }) => target))
    }
    expect(product.map(({ path }) => path).filter((path) => !reached.has(path))).toEqual([])
  })

  test('has no import cycle, type-only imports included', () => {
    expect(cyclesIn(everything)).toEqual([])
  })

  test('exports nothing that only tests use', () => {
    const users = [...everything.filter(({ path }) => !path.startsWith('test/')), ...scripts]
    const unused = product.flatMap((file) =>
      exportsOf(file.text)
        .filter((name) => !publicFiles.has(file.path) && !isUsed(file.path, name, users))
        .map((name) => `${file.path}: ${name}`),
    )
    // Lets the stress test restart a reader where the one before it was killed.
    expect(unused).toEqual(['src/base/rings/layout.ts: leasePosition'])
  })

  test('has one class of a name, and no type that shares it', () => {
    const declared = product
      .filter(({ path }) => !publicFiles.has(path))
      .flatMap(({ text }) => [
        ...text.matchAll(/^export (?:abstract )?(class|interface|type) (\w+)/gm),
      ])
    const classes = declared.filter(([, form]) => form === 'class').map(([, , name]) => name!)
    const others = new Set(
      declared.filter(([, form]) => form !== 'class').map(([, , name]) => name!),
    )
    const shared = classes.filter((name, at) => classes.indexOf(name) !== at || others.has(name))
    expect(shared).toEqual([])
  })

  test('names only files and rows of the design record that exist', () => {
    const design = readFileSync(join(root, 'docs', 'DESIGN.md'), 'utf8').toLowerCase()
    const paths = everything.map(({ path }) => `/${path}`)
    const wrong = product.flatMap(({ path, text }) => {
      const comments = text.split('\n').filter((line) => /^\s*(\/\/|\/?\*)/.test(line))
      const prose = comments.join('\n')
      const files = [...prose.matchAll(/[\w*/-]*[\w-]+\.ts\b/g)]
        .map(([name]) => name)
        .filter((name) => !name.includes('*') && !paths.some((one) => one.endsWith(`/${name}`)))
      const rows = [...prose.matchAll(/row "([^"]+)" in DESIGN/gi)]
        .map(([, row]) => row!)
        .filter((row) => !design.includes(`| ${row.toLowerCase()} |`))
      return [...files, ...rows].map((name) => `${path}: ${name}`)
    })
    expect(wrong).toEqual([])
  })

  test('names in the design record only files and tests that exist, and folds its decisions', () => {
    const design = readFileSync(join(root, 'docs', 'DESIGN.md'), 'utf8')
    const text = design.replaceAll(/^```[\s\S]*?^```/gm, '')
    const rows = text.split('\n').filter((line) => line.startsWith('| '))
    const paths = everything.map(({ path }) => `/${path}`)
    const files = text
      .split('\n')
      .flatMap((line) => line.match(/(?<![\w./-])(?:[\w-]+\/)*[\w-]+\.ts\b/g) ?? [])
      .filter((name) => !paths.some((path) => path.endsWith(`/${name}`)))
    const tests = rows
      .flatMap((row) => /\| ([^|]+) \|$/.exec(row)?.[1]?.split(', ') ?? [])
      .filter((name) => /^(?:unit|stress|integration|e2e|long|cluster)\/[\w./-]+$/.test(name))
      .filter((name) => !existsSync(join(root, 'test', name)))
      .filter((name) => !existsSync(join(root, 'test', `${name}.test.ts`)))
    expect([...files, ...tests]).toEqual([])
    const decisions = text.slice(text.indexOf('\n## Decisions'), text.indexOf('\n## Where'))
    expect(decisions.split('\n').filter((line) => line.length > 110)).toEqual([])
  })

  test('types no bound of the topology: each is made of the constant that enforces it', () => {
    const typed = product
      .filter(({ path }) => /^src\/(topology|operator\/topology\/chains-owned)\.ts$/.test(path))
      .flatMap(({ text }) => text.match(/'[^'\n]*'|`[^`\n]*`/g) ?? [])
      .filter((literal) => /\d ?[A-Za-z]/.test(literal.replaceAll(/\$\{.*?\}/g, '')))
    expect(typed).toEqual([])
  })

  test('has no barrels, no catch-all names, no left-over markers', () => {
    const names = product.filter((f) => /\/(index|utils|helpers|common|manager)\.ts$/.test(f.path))
    const marks = product.filter((f) => /TODO|FIXME|XXX|not implemented/.test(f.text))
    const focused = everything.filter(
      (f) => f.path !== 'test/tidy.test.ts' && /\b(it|test|describe)\.(only|todo)\b/.test(f.text),
    )
    expect([...names, ...marks, ...focused].map((file) => file.path)).toEqual([])
  })
})

describe('the scanner of these rules', () => {
  test('sees every form of import', () => {
    const text = `import { a } from './a.ts'
import type { B } from '../b/b.ts'
import 'node:fs'
export { c } from '@scope/pkg/deep'
const d = await import('./d.ts')
import {
  e,
} from 'pkg'`
    expect(importsOf('src/x/y.ts', text).map((found) => found.target)).toEqual([
      'src/x/a.ts',
      'src/b/b.ts',
      'node:fs',
      '@scope/pkg',
      'src/x/d.ts',
      'pkg',
    ])
  })

  test('finds an import cycle and names only its files', () => {
    const file = (path: string, ...targets: string[]): SourceFile => ({
      path,
      text: '',
      lines: 0,
      imports: targets.map((target) => ({ target, isPackage: false })),
    })
    const files = [file('a', 'b'), file('b', 'c'), file('c', 'd', 'b'), file('d')]
    expect(cyclesIn(files)).toEqual(['b -> c -> b'])
  })

  test('refuses what the table does not name', () => {
    expect(allows('src/base/a.ts', 'src/base/telemetry/log.ts')).toBe(false)
    expect(allows('src/products/rpc/server.ts', 'src/products/grpc/server.ts')).toBe(false)
    expect(allows('src/products/rpc/server.ts', 'src/devnode/svm.ts')).toBe(false)
    expect(allows('src/products/rpc/server.ts', 'src/upstream/ports.ts')).toBe(true)
    expect(allows('src/products/rpc/server.ts', 'src/indexer/engine.ts')).toBe(false)
    expect(allows('src/operator/topology/a.ts', 'src/products/rpc/server.ts')).toBe(true)
    expect(allows('src/operator/topology/a.ts', 'src/products/rpc/handle.ts')).toBe(false)
    expect(allows('src/operator/topology/a.ts', 'src/devnode/svm.ts')).toBe(false)
    expect(allows('src/base/transport/a.ts', 'src/base/threads/pool.ts')).toBe(false)
    expect(isImporter('lmdb', 'src/customers/quota/quota.ts')).toBe(false)
    expect(isImporter('left-pad', 'src/customers/quota/quota.ts')).toBe(false)
  })
})

/** Values that a file exports; types are erased and cost nothing. */
function exportsOf(text: string): string[] {
  const forms = /^export (?:async )?(?:const|let|function\*?|class) (\w+)/gm
  return [...text.matchAll(forms)].map(([, name]) => name!)
}

/** How often each word occurs in a file; counted once per file. */
const wordsOf = new WeakMap<SourceFile, Map<string, number>>()

function timesIn(file: SourceFile, name: string): number {
  let words = wordsOf.get(file)
  if (words === undefined) {
    words = new Map()
    for (const [word] of file.text.matchAll(/\w+/g)) words.set(word, (words.get(word) ?? 0) + 1)
    wordsOf.set(file, words)
  }
  return words.get(name) ?? 0
}

/** True when a file that imports `path`, or `path` itself beyond the declaration, has the name. */
function isUsed(path: string, name: string, users: readonly SourceFile[]): boolean {
  return users.some((file) => {
    const times = timesIn(file, name)
    if (file.path === path) return times > 1
    return (
      times > 0 && file.imports.some(({ target }) => target === path) && takes(file, path, name)
    )
  })
}

/** False when the names that the file imports from `path` are listed and this is none of them. */
function takes({ text }: SourceFile, path: string, name: string): boolean {
  const file = path.split('/').at(-1)
  const lists = [...text.matchAll(new RegExp(`import ([^']*?)from '[^']*/${file}'`, 'g'))]
  const isListed = lists.length > 0 && lists.every(([, list]) => !list!.includes('*'))
  return !isListed || lists.some(([, list]) => new RegExp(`\\b${name}\\b`).test(list!))
}

function allows(from: string, to: string): boolean {
  const source = moduleOf(from)
  if (moduleOf(to) === source) return true
  const target = to.replace(/^src\//, '').replace(/\.ts$/, '')
  const own = source.startsWith('products/') ? [source, 'products'] : [source]
  return own.flatMap((name) => mayImport[name] ?? []).some((row) => matches(row, target))
}

/** `base/` matches the files of that folder itself, `base/rings` everything in it. */
function matches(pattern: string, target: string): boolean {
  const parts = pattern.split('/')
  const path = target.split('/')
  if (parts.at(-1) === '') return parts.length === path.length && parts[0] === path[0]
  return parts.every((part, index) => part === '*' || part === path[index])
}

/** The folder or file on the first level of src, or `workers`. */
function groupOf(path: string): string {
  const [top = '', name = ''] = path.replace(/\.ts$/, '').split('/')
  return top === 'workers' ? top : name
}

/** `base/rings` for a folder of a group, `base/` for its own files; a program is one module. */
function moduleOf(path: string): string {
  const group = groupOf(path)
  if (group in programs || ['workers', 'upstream', 'main', 'topology'].includes(group)) return group
  const parts = path.split('/')
  return `${group}/${parts.length > 3 ? parts[2] : ''}`
}

/** From a group of the gateway into one above it. */
function isUpward(rank: ReadonlyMap<string, number>, from: string, to: string): boolean {
  const [above, below] = [rank.get(groupOf(from)), rank.get(groupOf(to))]
  return above !== undefined && below !== undefined && below < above
}

function isImporter(name: string, path: string): boolean {
  const allowed = importers[name]
  if (allowed === undefined) return name.startsWith('node:')
  return allowed.some((one) => (one.endsWith('/') ? path.startsWith(one) : path === one))
}

function sizeLimit(file: SourceFile): number {
  if (file.path.startsWith('workers/')) return workerLinesMax
  if (file.path === 'src/main.ts') return mainLinesMax
  return linesMax
}
