// Reads the credentials of a client's command: from files, a context, or a prompt on the terminal.
// Never from a flag's value, which every user of the machine can see in the process
// list, and from the environment only the name of a file.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { accept, messageOf, type Outcome } from '../../base/errors.ts'
import { credentialsFile } from '../config/load.ts'
import type { Context, Credentials } from './context-store.ts'
import { type Call, type FlagSpec, flagOf, flagTable, misuse } from './verb.ts'

export const tokenFlags = flagTable(`
  --credentials <file>  File with the lines TOKEN=, INDEXER_USER= and INDEXER_PASSWORD=, as printed
                        at issue; - is standard input [SLUICE_CREDENTIALS, then the context].
  --token-file <file>   File with the token; - is standard input.`)

export const credentialFlags: readonly FlagSpec[] = [
  ...tokenFlags,
  ...flagTable(`
  --user <user>           Database user, which is the id of the subscription.
  --password-file <file>  File with the database password.`),
]

/** What files and the context contain; '' for what none of them has. */
export function knownCredentials(call: Call, context: Context | null): Outcome<Credentials> {
  try {
    return accept(fromFiles(call, context))
  } catch (error) {
    return misuse(messageOf(error))
  }
}

/** All three; the missing ones are asked for on a terminal. */
export async function readCredentials(
  call: Call,
  context: Context | null,
): Promise<Outcome<Credentials>> {
  const known = knownCredentials(call, context)
  if (!known.ok) return known
  const { user, password, token } = known.value
  if (user !== '' && password !== '' && token !== '') return known
  if (!isTerminal())
    return misuse(
      'credentials are missing: set --credentials, or --user with the two files, ' +
        'or save them once with npx --no -- sluice context save <name>',
    )
  return accept(await askCredentials(known.value))
}

export async function askCredentials(known: Credentials): Promise<Credentials> {
  return {
    user: known.user || (await ask('user: ', true)),
    password: known.password || (await ask('password: ', false)),
    token: known.token || (await ask('token: ', false)),
  }
}

export function isTerminal(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true
}

function fromFiles(call: Call, context: Context | null): Credentials {
  const isChosen = flagOf(call, 'context') !== undefined && context !== null
  const kept = flagOf(call, 'credentials') ?? (isChosen ? null : credentialsFile())
  const lines = kept === null ? '' : contentOf(kept)
  const named = (name: string) =>
    new RegExp(`^(?:export )?${name}=["']?([^\\s"']+)`, 'm').exec(lines)?.[1] ?? ''
  const content = (flag: string) => {
    const path = flagOf(call, flag)
    return path === undefined ? '' : contentOf(path).trim()
  }
  return {
    user: flagOf(call, 'user') ?? (named('INDEXER_USER') || (context?.user ?? '')),
    password: content('password-file') || named('INDEXER_PASSWORD') || (context?.password ?? ''),
    token: content('token-file') || named('TOKEN') || (context?.token ?? ''),
  }
}

function contentOf(path: string): string {
  return readFileSync(path === '-' ? 0 : path, 'utf8')
}

/** Reads one line from the terminal; a secret is not echoed. */
function ask(prompt: string, isShown: boolean): Promise<string> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  return new Promise((resolve) => {
    if (!isShown) process.stderr.write(prompt)
    const lines = createInterface({
      input: process.stdin,
      output: isShown ? process.stderr : silent,
      terminal: true,
      historySize: 0,
    })
    lines.once('close', () => resolve(''))
    lines.question(isShown ? prompt : '', (answer) => {
      resolve(answer.trim())
      lines.close()
      if (!isShown) process.stderr.write('\n')
    })
  })
}
