import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { bashScript, fishScript, zshScript } from '../../../../src/operator/commands/completion.ts'
import { loadVerbs } from '../../../../src/operator/commands/dispatch.ts'

const verbs = await loadVerbs()

const separator = '----'

/** What bash offers after each of these lines, by running the function of the script. */
function offered(...lines: string[]): string[][] {
  return offeredAfter('sluice', ...lines)
}

/** The command itself is a function that answers what completion asks it for. */
function offeredAfter(command: string, ...lines: string[]): string[][] {
  const asked = lines.map((line) => {
    const words = `${command} ${line}`.split(' ')
    return `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})
COMP_CWORD=${words.length - 1}
COMPREPLY=()
_sluice
printf '%s\\n' "\${COMPREPLY[@]}" ${separator}`
  })
  const program = `${bashScript(verbs)}
sluice() { [ "$*" = 'completion labels --data d' ] && echo 'acme beta'; }
npx() { [ "$1 $2 $3" = '--no -- sluice' ] && sluice "\${@:4}" --data d; }
${asked.join('\n')}`
  const out = execFileSync('bash', ['-c', program], { encoding: 'utf8' })
  const answers = out.split(`${separator}\n`).slice(0, -1)
  return answers.map((text) => text.split('\n').filter((word) => word !== ''))
}

describe('completion', () => {
  test('offers verbs, second words, flags and the values of closed sets in bash', () => {
    const [kinds, ...others] = offered(
      'note add acme text --kind ',
      'sub',
      'subscription s',
      'subscription add acme --pl',
      'usage --output j',
      'query --output c',
      'serve --tls',
      'completion z',
    )
    expect(kinds).toContain('refund')
    expect(others).toEqual([
      ['subscription'],
      ['set', 'show', 'suspend'],
      ['--plan'],
      ['json'],
      ['csv'],
      ['--tls.cert', '--tls.key'],
      ['zsh'],
    ])
  })

  test('offers topics, endpoints and labels, the latter by asking the command', () => {
    const [labels, ...others] = offered(
      'usage --data d ',
      'tail l',
      'tail tps con',
      'call g',
      'shreds l',
      'subscription show --data d a',
      'shreds listen 20010 --data d --for ',
    )
    expect(labels).toContain('beta')
    expect(others).toEqual([
      ['lifecycle'],
      ['contention'],
      ['grpc'],
      ['listen'],
      ['acme'],
      ['acme', 'beta'],
    ])
  })

  test('works after npx --no -- sluice, and leaves other uses of npx alone', () => {
    expect(offeredAfter('npx --no -- sluice', 'sub', 'tail l', 'subscription show b')).toEqual([
      ['subscription'],
      ['lifecycle'],
      ['beta'],
    ])
    expect(offeredAfter('npx', '--no slu', 'vitest sub')).toEqual([[], []])
  })

  test('offers --yes only where a verb asks', () => {
    expect(offered('token rotate acme --y', 'usage --y')).toEqual([['--yes'], []])
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
