// Native packages: the binaries we load are the ones we recorded, for both architectures.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { root } from '../testkit/tree.ts'

// SHA-256 of uWebSockets.js for Node 20, 22 and 24 (module versions 115, 127, 137). That for Node 20
// is v20.41 as its authors published it.
const uwsBinaries: Readonly<Record<string, string>> = {
  'linux arm64 115': '034e0fcccdc08f90df3b130f421516311831b1352fe38eab91abc2984c2fdf3a',
  'linux arm64 127': 'a7d9bc3ec166421a49416d5ea4f49118ae68ea1dbf8a765c4f45a79b0b6adb13',
  'linux arm64 137': 'b6eb007d627e00bcce03ad38f197124e9027c03f6fe784b37f97b8a6ea709cb4',
  'linux x64 115': 'f4fa5d7b697529b45ac8aa3d57385d9af51bc1d2b26aa9f5b68ca4361542e665',
  'linux x64 127': '78e38a9a163b1cf33ce539619e5908111dea95a12e7943d95fbcdd524879caa8',
  'linux x64 137': '3b549c14e01d9d1faf234cdf4b6f0fb08158605e3692cd0eb1b905e327bd3449',
}

interface Lock {
  readonly packages: Readonly<
    Record<string, { version?: string; optionalDependencies?: Record<string, string> }>
  >
}

const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as Lock
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}

describe('native packages', () => {
  const folder = dirname(createRequire(import.meta.url).resolve('uWebSockets.js'))

  for (const [name, recorded] of Object.entries(uwsBinaries)) {
    const file = join(folder, `uws_${name.replaceAll(' ', '_')}.node`)
    // The installation removes those of other platforms.
    const isHere = name.startsWith(`${process.platform} ${process.arch}`)
    test.skipIf(!isHere && !existsSync(file))(`uWebSockets.js for ${name} is the recorded`, () => {
      expect(createHash('sha256').update(readFileSync(file)).digest('hex')).toBe(recorded)
    })
  }

  test('the lock file has the linux arm64 and x64 build of every native package', () => {
    const names = Object.keys(lock.packages).map((path) => path.replace(/^.*node_modules\//, ''))
    const platformName = /^(.*[-/])(linux)[-](arm64|x64)(-gnu)?$/
    const families = new Map<string, Set<string>>()
    for (const name of names) {
      const match = platformName.exec(name)
      if (match === null) continue
      const family = `${match[1]}${match[4] ?? ''}`
      const builds = families.get(family) ?? new Set<string>()
      families.set(family, builds.add(match[3] ?? ''))
    }
    expect(families.size).toBeGreaterThan(3)
    const lacking = [...families].filter(([, builds]) => builds.size !== 2).map(([name]) => name)
    expect(lacking).toEqual([])
  })

  test('the lock file names no registry', () => {
    expect(readFileSync(join(root, 'package-lock.json'), 'utf8')).not.toContain('"resolved"')
  })

  test('every dependency is an exact version', () => {
    const versions = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })
    const loose = versions.filter(([, version]) => !/^(npm:[\w.-]+@)?\d+\.\d+\.\d+/.test(version))
    expect(loose).toEqual([])
  })
})
