// What every command loads at its start. A package that only one verb needs is imported by that
// verb when it runs: HTTP and gRPC clients alone take longer than all of ours together.
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { expect, it } from 'vitest'
import { root } from '../../testkit/tree.ts'

/** Values only: the compiler erases `import type`. */
const staticImport = /^(?:import '|(?:import|export) (?!type )[^'`=;()]*? from ')([^']+)'$/gm

it('loads few packages, and no client', () => {
  const seen = new Set<string>()
  const packages = new Set<string>()
  const visit = (path: string) => {
    if (seen.has(path)) return
    seen.add(path)
    for (const [, target] of readFileSync(join(root, path), 'utf8').matchAll(staticImport))
      if (target!.startsWith('.')) visit(posix.join(posix.dirname(path), target!))
      else if (!target!.startsWith('node:')) packages.add(target!)
  }
  visit('src/main.ts')
  expect(seen.size).toBeGreaterThan(50)
  expect([...packages].sort()).toEqual(['hdr-histogram-js', 'pino'])
})
