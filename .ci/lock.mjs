// Whether package-lock.json is that of package.json: npm makes it anew, and the two are compared.
// Optional packages of a platform are left out: which of them a lock file has depends on what the
// registry serves where it was made.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

const path = 'package-lock.json'
const committed = readFileSync(path, 'utf8')
try {
  const words = [
    'install',
    '--package-lock-only',
    '--save',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
  ]
  execFileSync('npm', words, { stdio: ['ignore', 'ignore', 'inherit'] })
  const [before, after] = [committed, readFileSync(path, 'utf8')].map(packagesOf)
  const names = [...new Set([...before.keys(), ...after.keys()])]
  const stale = names.filter((name) => before.get(name) !== after.get(name))
  for (const name of stale) console.log(`package-lock.json is stale: ${name || 'the project'}`)
  process.exitCode = stale.length === 0 ? 0 : 1
} finally {
  writeFileSync(path, committed)
}

function packagesOf(text) {
  const all = Object.entries(JSON.parse(text).packages)
  const isOfPlatform = ({ optional, os, cpu, libc }) => optional && (os || cpu || libc)
  return new Map(
    all.filter(([, one]) => !isOfPlatform(one)).map(([name, one]) => [name, JSON.stringify(one)]),
  )
}
