// Reads the credentials of `sluice query` from files or a prompt on the terminal.
// Thread: main. Never from a flag's value or the environment, which other users can see.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { accept, messageOf, type Outcome } from '../base/errors.ts'
import { type Call, type FlagSpec, flagOf, misuse } from './verb.ts'

export interface QueryCredentials {
  readonly user: string
  readonly password: string
  readonly token: string
}

export const credentialFlags: readonly FlagSpec[] = [
  {
    name: 'credentials',
    value: 'file',
    doc: 'File with the lines TOKEN=, INDEXER_USER= and INDEXER_PASSWORD=, as printed at issue.',
  },
  { name: 'user', value: 'user', doc: 'Database user, which is the id of the subscription.' },
  { name: 'password-file', value: 'file', doc: 'File with the database password.' },
  { name: 'token-file', value: 'file', doc: 'File with the token.' },
]

export async function readCredentials(call: Call): Promise<Outcome<QueryCredentials>> {
  let given: QueryCredentials
  try {
    given = fromFiles(call)
  } catch (error) {
    return misuse(messageOf(error))
  }
  const isComplete = given.user !== '' && given.password !== '' && given.token !== ''
  if (isComplete) return accept(given)
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    return misuse('credentials are missing: set --credentials, or --user with the two files')
  return accept({
    user: given.user || (await ask('user: ', true)),
    password: given.password || (await ask('password: ', false)),
    token: given.token || (await ask('token: ', false)),
  })
}

function fromFiles(call: Call): QueryCredentials {
  const kept = flagOf(call, 'credentials')
  const lines = kept === undefined ? '' : readFileSync(kept, 'utf8')
  const named = (name: string) =>
    new RegExp(`^(?:export )?${name}=["']?([^\\s"']+)`, 'm').exec(lines)?.[1] ?? ''
  const content = (flag: string) => {
    const path = flagOf(call, flag)
    return path === undefined ? '' : readFileSync(path, 'utf8').trim()
  }
  return {
    user: flagOf(call, 'user') ?? named('INDEXER_USER'),
    password: content('password-file') || named('INDEXER_PASSWORD'),
    token: content('token-file') || named('TOKEN'),
  }
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
