// Parses the arguments of `npm run bench --`.

export interface BenchOptions {
  readonly names: readonly string[]
  readonly compare?: readonly [string, string]
  /** Writes the tables of docs/PERFORMANCE.md, of this commit or the one that ran last. */
  readonly summary?: { readonly commit?: string }
  /** Compares with the newest release instead of running benches. */
  readonly sinceRelease?: boolean
  readonly seconds?: number
  readonly out?: string
  readonly target?: string
  readonly token?: string
  readonly full?: boolean
  readonly smoke?: boolean
  /** One round of the bench of this very name; prints its result as JSON and keeps none. */
  readonly once?: string
}

export const usage = `npm run bench                      all benches
npm run bench -- ring rpc          those whose name is or begins with "ring" or "rpc"
npm run bench -- compare a.json b.json
npm run bench -- summary [commit]  writes the tables of docs/PERFORMANCE.md from three or more whole
                                   runs of one commit: runs without --seconds on a clean tree
npm run bench -- since-release     processor time beside the newest release of CHANGELOG.md, which is
                                   built in a temporary folder; fails when this tree is slower
  --seconds n     measure n seconds per contender and round
  --out folder    where <name>.json goes (bench/results)
  --smoke         run each once, briefly, several at once: fails on a bench that hangs, throws or
                  gives wrong answers; figures are not shown
  --full          measure the sizes of growth benches too that take long
  --target host:port --token t   aim rpc benches at a running deployment; the others say why not.
                  Any other load on a deployment: npx sluice bench load`

/** The options, or a sentence on what is wrong with them. */
export function parseOptions(words: readonly string[]): BenchOptions | string {
  const names: string[] = []
  const values = new Map<string, string>()
  const flags = new Set<string>()
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index]!
    if (!word.startsWith('--')) {
      names.push(word)
      continue
    }
    if (word === '--full' || word === '--smoke') {
      flags.add(word)
      continue
    }
    const [key = '', inline] = word.slice(2).split(/=(.*)/s)
    if (!['seconds', 'out', 'target', 'token', 'once'].includes(key))
      return `unknown option --${key}`
    const value = inline ?? words[index + 1]
    if (value === undefined) return `--${key} needs a value`
    if (inline === undefined) index += 1
    values.set(key, value)
  }
  const seconds = values.has('seconds') ? Number(values.get('seconds')) : undefined
  if (seconds !== undefined && !(seconds > 0 && seconds <= 600)) return '--seconds is 0 to 600'
  const rest = {
    ...(seconds === undefined ? {} : { seconds }),
    ...pick('out', values),
    ...pick('target', values),
    ...pick('token', values),
    ...pick('once', values),
    ...(flags.has('--full') && { full: true }),
    ...(flags.has('--smoke') && { smoke: true }),
  }
  if (names[0] === 'summary') {
    const [, commit, ...more] = names
    if (more.length > 0) return 'summary takes one commit'
    return { names: [], summary: commit === undefined ? {} : { commit }, ...rest }
  }
  if (names[0] === 'since-release')
    return names.length > 1
      ? 'since-release takes no names'
      : { names: [], sinceRelease: true, ...rest }
  if (names[0] !== 'compare') return { names, ...rest }
  const [, before, after, ...more] = names
  if (before === undefined || after === undefined || more.length > 0)
    return 'compare takes two files'
  return { names: [], compare: [before, after], ...rest }
}

function pick<K extends string>(
  key: K,
  values: ReadonlyMap<string, string>,
): { [P in K]?: string } {
  const value = values.get(key)
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: string })
}
