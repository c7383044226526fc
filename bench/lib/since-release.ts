// `npm run bench -- since-release`: this tree beside the release that CHANGELOG.md names first, by
// processor time, in rounds that alternate on the same machine. The release is unpacked and built in
// a temporary folder with the packages that are installed here. A clone without that commit cannot
// compare, and says `skipped: ...`.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'
import { startProcess } from '../../test/testkit/process.ts'
import { formatSides, isSlower, newestRelease, type Sides } from './release-check.ts'

/** Cheap, and counted in processor time: other programs on the machine disturb them least. */
const benches = ['rpc-endpoint-cpu', 'token-quota']
/** Processes of each side: V8 may compile the same code well in one and badly in another. */
const passes = 2
/** Of each process, behind one that is not counted. */
const roundsEach = 4

export interface SinceRelease {
  readonly text: string
  readonly isOk: boolean
}

export async function sinceRelease(progress: (text: string) => void): Promise<SinceRelease> {
  const root = packageRoot()
  const release = newestRelease(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'))
  if (release === null)
    return { text: 'CHANGELOG.md names no commit for its newest release', isOk: false }
  const isThere = spawnSync('git', ['cat-file', '-e', `${release.commit}^{commit}`], { cwd: root })
  if (isThere.status !== 0)
    return { text: `skipped: ${release.commit} is not in this clone`, isOk: true }
  const folder = mkdtempSync(join(tmpdir(), 'sluice-release-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  try {
    progress(`builds ${release.version} (${release.commit})`)
    const problem = unpackAndBuild(root, release.commit, folder)
    if (problem !== undefined)
      return { text: `${release.version} was not compiled: ${problem}`, isOk: false }
    const all = await measure({ release: folder, tree: root }, progress)
    return { text: formatSides(all, release), isOk: !all.some(isSlower) }
  } finally {
    remove()
    process.removeListener('exit', remove)
  }
}

/** What is wrong, if anything. No work tree: a killed run would leave its entry in the repository. */
function unpackAndBuild(root: string, commit: string, folder: string): string | undefined {
  const options = { cwd: root, maxBuffer: 1 << 30 }
  const archive = execFileSync('git', ['archive', commit], options)
  execFileSync('tar', ['-x', '-C', folder], { input: archive })
  symlinkSync(realpathSync(join(root, 'node_modules')), join(folder, 'node_modules'))
  // Only the code that is measured: types were checked then, and its page may need other packages.
  const args = ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', 'dist']
  const built = spawnSync(join('node_modules', '.bin', 'tsc'), args, { cwd: folder })
  if (built.status === 0) return undefined
  const lines = `${built.stdout}${built.stderr}`.trim().split('\n')
  const telling = lines.filter((line) => /error/i.test(line))
  return (telling.length > 0 ? telling : lines).slice(0, 3).join(' | ')
}

async function measure(
  roots: { readonly release: string; readonly tree: string },
  progress: (text: string) => void,
): Promise<Sides[]> {
  const side = new URL('../load/clients/release-side.js', import.meta.url)
  const all = benches.map((name) => ({ name, release: [] as number[], tree: [] as number[] }))
  for (let pass = 1; pass <= passes; pass += 1) {
    const [release, tree] = [startProcess(side, [roots.release]), startProcess(side, [roots.tree])]
    try {
      for (let round = 0; round <= roundsEach; round += 1) {
        progress(`process ${pass} of ${passes}, round ${round} of ${roundsEach}`)
        for (const sides of all) {
          const { name } = sides
          const before = await release.call<number>('round', name)
          const now = await tree.call<number>('round', name)
          if (round === 0) continue
          sides.release.push(before)
          sides.tree.push(now)
        }
      }
    } finally {
      await Promise.all([release.stop(), tree.stop()])
    }
  }
  return all
}
