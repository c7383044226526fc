// Parses the arguments of `npm run bench --`.
import { parseArgs } from 'node:util'
import { messageOf } from '../../src/base/errors.ts'

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
                  Any other load on a deployment: npx --no -- sluice bench load`

/** The options, or a sentence on what is wrong with them. */
export function parseOptions(words: readonly string[]): BenchOptions | string {
  const parsed = valuesOf(words)
  if (typeof parsed === 'string') return parsed
  const { seconds: text, ...values } = parsed.values
  const seconds = Number(text ?? 1)
  if (!(seconds > 0 && seconds <= 600)) return '--seconds is 0 to 600'
  // Reason for the cast: an option that is absent is left out, which the types do not know.
  const rest = { ...values, ...(text !== undefined && { seconds }) } as Omit<BenchOptions, 'names'>
  const [verb, first, second, ...more] = parsed.positionals
  if (verb === 'summary') {
    if (second !== undefined) return 'summary takes one commit'
    return { names: [], summary: first === undefined ? {} : { commit: first }, ...rest }
  }
  if (verb === 'since-release')
    return first === undefined
      ? { names: [], sinceRelease: true, ...rest }
      : 'since-release takes no names'
  if (verb !== 'compare') return { names: parsed.positionals, ...rest }
  if (first === undefined || second === undefined || more.length > 0)
    return 'compare takes two files'
  return { names: [], compare: [first, second], ...rest }
}

function valuesOf(words: readonly string[]) {
  const [text, flag] = [{ type: 'string' }, { type: 'boolean' }] as const
  const options = { seconds: text, out: text, target: text, token: text, once: text }
  try {
    return parseArgs({
      args: [...words],
      allowPositionals: true,
      options: { ...options, full: flag, smoke: flag },
    })
  } catch (error) {
    return messageOf(error)
  }
}
