// Builds and runs the small C programs of bench/native: the limit that a way is measured against.
// Thread: main of the bench process. Without a compiler their rows are left out.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { packageRoot } from '../../src/base/package-root.ts'

const run = promisify(execFile)
const compilers = ['cc', 'gcc', 'clang']
const flags = ['-O2', '-pthread', '-std=gnu11']

/** Why native programs cannot be built here; for `Contender.missing`. */
export async function compilerMissing(): Promise<string | undefined> {
  return (await findCompiler()) === null ? 'no C compiler (cc, gcc, clang)' : undefined
}

/** Compiles bench/native/<name>.c, unless that text was compiled before; returns the program. */
export async function buildNative(name: string): Promise<string> {
  const sources = join(packageRoot(), 'bench', 'native')
  const source = join(sources, `${name}.c`)
  const hash = createHash('sha256').update(readFileSync(source)).update(flags.join())
  for (const file of readdirSync(sources).sort())
    if (file.endsWith('.h')) hash.update(readFileSync(join(sources, file)))
  const digest = hash.digest('hex')
  const folder = join(tmpdir(), 'sluice-bench-native')
  const program = join(folder, `${name}-${digest.slice(0, 16)}`)
  if (existsSync(program)) return program
  const compiler = await findCompiler()
  if (compiler === null) throw new Error('no C compiler')
  mkdirSync(folder, { recursive: true })
  // Renamed when complete: another bench never starts half a program.
  const fresh = `${program}.${process.pid}`
  await run(compiler, [...flags, '-o', fresh, source, '-lm'])
  renameSync(fresh, program)
  return program
}

/** Runs a native program that prints one JSON object. */
export async function runNative(
  program: string,
  words: readonly (string | number)[],
): Promise<Record<string, number>> {
  const { stdout } = await run(program, words.map(String))
  return JSON.parse(stdout) as Record<string, number>
}

async function findCompiler(): Promise<string | null> {
  for (const compiler of compilers) {
    const works = await run(compiler, ['--version']).then(
      () => true,
      () => false,
    )
    if (works) return compiler
  }
  return null
}
