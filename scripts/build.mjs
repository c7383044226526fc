// Compiles src, workers and bench into dist/, bundles the programs and the live page, and compiles
// modules to WebAssembly beside their callers. Run by `npm install` (prepare) and before
// tests; a build whose inputs are those of the one that is there changes nothing.
// Two builds at once (a test run beside a start) must not see each other's half-written files, so
// the build writes into a folder of its own and then swaps it in by rename.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleLive } from './bundle-live.mjs'
import { bundlePrograms } from './bundle-programs.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const bin = (name) => join(root, 'node_modules', '.bin', name)
const inputs = digestOfInputs()
const stamp = join(root, 'dist', '.inputs')
if (existsSync(stamp) && readFileSync(stamp, 'utf8') === inputs) process.exit(0)
const fresh = mkdtempSync(join(root, '.dist-'))
// A temporary folder is its owner's alone; the build is for every user of the installation.
chmodSync(fresh, 0o755)

try {
  // Without its check of types, which takes longer than all the rest: `npm run typecheck` is that.
  const project = ['-p', join(root, 'tsconfig.build.json'), '--noCheck', '--outDir', fresh]
  execFileSync(bin('tsc'), project, { cwd: root, stdio: 'inherit' })
  await bundlePrograms(root, fresh)
  // The pages are browser code: one script each.
  await bundleLive(root, join(fresh, 'src', 'products', 'metrics', 'live'))
  compileModules()
  copyPages()
  copySql()
  const main = join(fresh, 'src', 'main.js')
  if (existsSync(main)) chmodSync(main, 0o755)
  writeFileSync(join(fresh, '.inputs'), inputs)
  const dist = join(root, 'dist')
  const old = mkdtempSync(join(root, '.dist-'))
  if (existsSync(dist)) renameSync(dist, join(old, 'dist'))
  renameSync(fresh, dist)
  rmSync(old, { recursive: true, force: true })
} catch (error) {
  rmSync(fresh, { recursive: true, force: true })
  if (typeof error.status !== 'number') throw error
  process.exit(error.status)
}

/** SHA-256 of the names and contents of everything that the build reads. */
function digestOfInputs() {
  // Benches import from the folders of test, and are compiled with what they import.
  const folders = [
    'src',
    'workers',
    'bench',
    'scripts',
    'test/testkit',
    'test/break',
    'test/cluster',
    'test/fuzz',
    'test/simulate',
    'test/soak',
  ]
  const single = ['package-lock.json', 'tsconfig.json', 'tsconfig.build.json']
  const names = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.endsWith('.json'))
      .map((entry) => join(entry.parentPath ?? entry.path, entry.name)),
  )
  const hash = createHash('sha256')
  for (const path of [...names, ...single.map((name) => join(root, name))].sort())
    hash
      .update(`${path.slice(root.length)}\0`)
      .update(readFileSync(path))
      .update('\0')
  return hash.digest('hex')
}

/** Pages that an endpoint serves are beside their callers, as they are in src. */
function copyPages() {
  const pages = join('src', 'products', 'indexer', 'play')
  cpSync(join(root, pages), join(fresh, pages), { recursive: true })
}

/** SQL is beside its readers, as it is in src. */
function copySql() {
  const names = readdirSync(join(root, 'src'), { recursive: true })
  for (const name of names.filter((name) => name.endsWith('.sql')))
    copyFileSync(join(root, 'src', name), join(fresh, 'src', name))
}

/** The modules in AssemblyScript: each from a folder `wasm`, to beside its callers. */
function compileModules() {
  const shared = ['--importMemory', '--sharedMemory', '--maximumMemory', '65536']
  compileModule(join('src', 'streams', 'analysis'), 'analysis', ['threads', ...shared])
  compileModule(join('src', 'base'), 'checksum', ['simd', '--maximumMemory', '2'])
}

/** AssemblyScript takes longer than all the rest, so an up-to-date module is taken over. */
function compileModule(folder, name, [feature, ...options]) {
  const sources = join(root, folder, 'wasm')
  const module = join(folder, `${name}.wasm`)
  const target = join(fresh, module)
  const known = join(root, 'dist', module)
  mkdirSync(dirname(target), { recursive: true })
  const files = readdirSync(sources).map((file) => join(sources, file))
  const newest = Math.max(...[...files, import.meta.filename].map((file) => statSync(file).mtimeMs))
  if (existsSync(known) && statSync(known).mtimeMs > newest) {
    copyFileSync(known, target)
    return
  }
  const usual = ['-O3', '--noAssert', '--runtime', 'stub', '--initialMemory', '2']
  execFileSync(
    bin('asc'),
    [join(sources, `${name}.ts`), ...usual, '--enable', feature, ...options, '-o', target],
    { cwd: root, stdio: 'inherit' },
  )
}
