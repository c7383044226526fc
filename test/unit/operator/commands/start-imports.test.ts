// What commands load at their start. Each verb is a module that dispatch.ts loads when its word is
// typed, and a package that only some verbs need is imported by them when they run: HTTP and gRPC
// clients alone take longer than all of ours together.
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { expect, it } from 'vitest'
import { root } from '../../../testkit/tree.ts'

/** Values only: the compiler erases `import type`. */
const staticImport = /^(?:import '|(?:import|export) (?!type )[^'`=;()]*? from ')([^']+)'$/gm

function loadedFrom(entry: string): { files: Set<string>; packages: string[] } {
  const files = new Set<string>()
  const packages = new Set<string>()
  const visit = (path: string) => {
    if (files.has(path)) return
    files.add(path)
    for (const [, target] of readFileSync(join(root, path), 'utf8').matchAll(staticImport))
      if (target!.startsWith('.')) visit(posix.join(posix.dirname(path), target!))
      else if (!target!.startsWith('node:')) packages.add(target!)
  }
  visit(entry)
  return { files, packages: [...packages] }
}

it('loads the configuration and no package before it knows the verb', () => {
  const { files, packages } = loadedFrom('src/main.ts')
  expect(packages).toEqual([])
  expect([...files]).toContain('src/operator/config/config.ts')
  const commands = [...files].filter((path) => path.startsWith('src/operator/commands/'))
  expect(commands.map((path) => posix.basename(path, '.ts')).sort()).toEqual([
    ...['args', 'dispatch', 'output', 'verb', 'version'],
  ])
})

it('loads a package with a verb only where every run of it needs it', () => {
  const folder = 'src/operator/commands'
  const loading = readdirSync(join(root, folder)).flatMap((name) => {
    const { packages } = loadedFrom(`${folder}/${name}`)
    return packages.map((found) => `${name}: ${found}`)
  })
  expect(loading.sort()).toEqual([
    'bench-load.ts: hdr-histogram-js',
    'bench.ts: hdr-histogram-js',
    'call-grpc.ts: protobufjs',
    'call-socket.ts: undici',
    'devnode.ts: pino',
    'serve.ts: pino',
  ])
})
