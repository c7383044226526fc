import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  bashScript,
  fishScript,
  zshScript,
} from '../../../../src/operator/commands/completion-scripts.ts'
import { loadVerbs } from '../../../../src/operator/commands/verbs.ts'

const verbs = await loadVerbs()

/** What bash offers after these words, by running the function of the script. */
function offered(...words: string[]): string[] {
  return offeredAfter(['sluice'], ...words)
}

/** The command itself is a function that answers what completion asks it for. */
function offeredAfter(command: string[], ...words: string[]): string[] {
  const program = `${bashScript(verbs)}
sluice() { [ "$*" = 'completion labels --data d' ] && echo 'acme beta'; }
npx() { [ "$1 $2 $3" = '--no -- sluice' ] && sluice "\${@:4}" --data d; }
COMP_WORDS=(${[...command, ...words].map((word) => `'${word}'`).join(' ')})
COMP_CWORD=${command.length - 1 + words.length}
_sluice
printf '%s\\n' "\${COMPREPLY[@]}"`
  const out = execFileSync('bash', ['-c', program], { encoding: 'utf8' })
  return out.split('\n').filter((line) => line !== '')
}

describe('completion', () => {
  test('offers verbs, second words, flags and the values of closed sets in bash', () => {
    expect(offered('sub')).toEqual(['subscription'])
    expect(offered('subscription', 's')).toEqual(['set', 'show', 'suspend'])
    expect(offered('subscription', 'add', 'acme', '--pl')).toEqual(['--plan'])
    expect(offered('note', 'add', 'acme', 'text', '--kind', '')).toContain('refund')
    expect(offered('usage', '--output', 'j')).toEqual(['json'])
    expect(offered('query', '--output', 'c')).toEqual(['csv'])
    expect(offered('serve', '--tls')).toEqual(['--tls.cert', '--tls.key'])
    expect(offered('completion', 'z')).toEqual(['zsh'])
  })

  test('offers topics, endpoints and labels, the latter by asking the command', () => {
    expect(offered('tail', 'l')).toEqual(['lifecycle'])
    expect(offered('tail', 'tps', 'con')).toEqual(['contention'])
    expect(offered('call', 'g')).toEqual(['grpc'])
    expect(offered('shreds', 'l')).toEqual(['listen'])
    expect(offered('subscription', 'show', '--data', 'd', 'a')).toEqual(['acme'])
    expect(offered('usage', '--data', 'd', '')).toContain('beta')
    expect(offered('shreds', 'listen', '20010', '--data', 'd', '--for', '')).toEqual([
      'acme',
      'beta',
    ])
  })

  test('works after npx --no -- sluice, and leaves other uses of npx alone', () => {
    const npx = ['npx', '--no', '--', 'sluice']
    expect(offeredAfter(npx, 'sub')).toEqual(['subscription'])
    expect(offeredAfter(npx, 'tail', 'l')).toEqual(['lifecycle'])
    expect(offeredAfter(npx, 'subscription', 'show', 'b')).toEqual(['beta'])
    expect(offeredAfter(['npx', '--no', 'slu'])).toEqual([])
    expect(offeredAfter(['npx', 'vitest'], 'sub')).toEqual([])
  })

  test('offers --yes only where a verb asks', () => {
    expect(offered('token', 'rotate', 'acme', '--y')).toEqual(['--yes'])
    expect(offered('usage', '--y')).toEqual([])
  })

  test('every verb is in every script', () => {
    for (const script of [bashScript(verbs), zshScript(verbs), fishScript(verbs)])
      for (const verb of verbs) for (const word of verb.words) expect(script).toContain(word)
  })

  for (const [shell, script] of [
    ['bash', bashScript(verbs)],
    ['zsh', zshScript(verbs)],
    ['fish', fishScript(verbs)],
  ] as const)
    test(`the ${shell} script parses`, (context) => {
      // From a file: not every shell parses its standard input with -n.
      const folder = mkdtempSync(join(tmpdir(), 'sluice-completion-'))
      const file = join(folder, `sluice.${shell}`)
      writeFileSync(file, script)
      const ran = spawnSync(shell, ['-n', file], { encoding: 'utf8' })
      rmSync(folder, { recursive: true })
      if (ran.error !== undefined) return context.skip(`${shell} is not here`)
      expect(ran.stderr).toBe('')
      expect(ran.status).toBe(0)
    })
})
