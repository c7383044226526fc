// Finds the server that a client's command calls, and reads the credentials for it: from files, a
// context, or a prompt on the terminal. Never from a flag's value, which every user of the machine
// can see in the process list, and from the environment only the name of a file.
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { credentialsFile } from '../config/load.ts'
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

// Keeps contexts: a server and the credentials for it under a name, in the user's home folder.
// Folder 0700, files 0600; a file that other users can read is refused.
//
//   ~/.sluice/contexts/<name>.json    one context
//   ~/.sluice/context                 the name of the one in use

/** Empty where a credential is absent. */
export interface Credentials {
  readonly token: string
  readonly user: string
  readonly password: string
}

export interface Context extends Credentials {
  readonly name: string
  /** Absolute data folder of the server, for endpoints that are not listed; null without one. */
  readonly data: string | null
  /** URLs by the name of the endpoint. */
  readonly endpoints: Readonly<Record<string, string>>
}

const nameShape = /^[A-Za-z0-9][\w.-]{0,63}$/

export function isContextName(name: string): boolean {
  return nameShape.test(name)
}

/** Writes a context; the first one is in use at once. */
export function saveContext(context: Context): void {
  const isFirst = contextNames().length === 0
  mkdirSync(folder(), { recursive: true, mode: 0o700 })
  const { name, ...content } = context
  writePrivate(pathOf(name), `${JSON.stringify(content, null, 2)}\n`)
  if (isFirst) useContext(name)
}

/** Not found, readable by others, or broken: a refusal that says what to do. */
export function readContext(name: string): Outcome<Context> {
  const path = isContextName(name) ? pathOf(name) : ''
  const found = path === '' ? undefined : statSync(path, { throwIfNoEntry: false })
  if (found === undefined)
    return refuse(
      'not-found',
      'no-context',
      `no context "${name}": npx --no -- sluice context list shows them`,
    )
  if ((found.mode & 0o077) !== 0)
    return refuse('rejected', 'open-context', `other users can read ${path}: chmod 600 it`)
  try {
    return accept({ ...(JSON.parse(readFileSync(path, 'utf8')) as Omit<Context, 'name'>), name })
  } catch (error) {
    return refuse('rejected', 'bad-context', `${path}: ${messageOf(error)}; save it once more`)
  }
}

export function contextNames(): string[] {
  try {
    const files = readdirSync(folder()).filter((file) => file.endsWith('.json'))
    return files.map((file) => file.slice(0, -'.json'.length)).sort()
  } catch {
    // No context was saved yet.
    return []
  }
}

/** The name of the context in use; null when none is. */
export function contextInUse(): string | null {
  try {
    return readFileSync(currentPath(), 'utf8').trim() || null
  } catch {
    return null
  }
}

export function useContext(name: string): void {
  writePrivate(currentPath(), `${name}\n`)
}

export function removeContext(name: string): void {
  rmSync(pathOf(name), { force: true })
  if (contextInUse() === name) rmSync(currentPath(), { force: true })
}

export function pathOf(name: string): string {
  return join(folder(), `${name}.json`)
}

function folder(): string {
  return join(homedir(), '.sluice', 'contexts')
}

function currentPath(): string {
  return join(homedir(), '.sluice', 'context')
}

/** A reader never sees half a file, and no other user any of it. */
function writePrivate(path: string, text: string): void {
  const fresh = `${path}.${process.pid}`
  writeFileSync(fresh, text, { mode: 0o600 })
  // The mode above applies to a new file only, and less the mask.
  chmodSync(fresh, 0o600)
  renameSync(fresh, path)
}

// Finds the endpoint that a command calls, and whether a context's credentials belong to it.
// The folder's lock must show that its server runs: otherwise any process may listen
// on the port, and the command would send it credentials.
//
//   --url, else --data, else the context, else the configured data folder
//
// The credentials of a context go only to the server that it was saved for.

interface Address {
  readonly host: string
  readonly port: number
  readonly tls: boolean
}

export interface Target {
  readonly url: string
  /** The context whose server this is; null when it is another, or without a context. */
  readonly context: Context | null
}

export const contextFlag: FlagSpec = {
  name: 'context',
  value: 'name',
  doc: 'Server and credentials of this context [the one in use].',
  words: 'contexts',
}

export async function findEndpoint(call: Call, name: string): Promise<Outcome<Target>> {
  const asked = flagOf(call, 'context')
  const chosen = asked ?? contextInUse()
  const read = chosen === null ? accept(null) : readContext(chosen)
  // The one in use may be gone; the one that was asked for must exist.
  if (!read.ok && (asked !== undefined || read.refusal.kind !== 'not-found')) return read
  const context = read.ok ? read.value : null
  const url = flagOf(call, 'url')
  if (url !== undefined)
    return accept({ url, context: context?.endpoints[name] === url ? context : null })
  const isNamed = call.loaded.origins.has('data')
  const listed = isNamed ? undefined : context?.endpoints[name]
  if (listed !== undefined) return accept({ url: listed, context })
  const configured = resolve(call.loaded.config.data)
  const data = isNamed ? configured : (context?.data ?? configured)
  const found = await endpointOfFolder(data, name)
  if (!found.ok) return found
  return accept({ url: found.value, context: context?.data === data ? context : null })
}

export type OpenEndpoints = Readonly<Record<string, Address | undefined>>

/** What the server on that folder wrote; null when none has. */
export function readEndpoints(data: string): OpenEndpoints | null {
  try {
    return JSON.parse(readFileSync(join(resolve(data), 'doors.json'), 'utf8'))
  } catch {
    return null
  }
}

async function endpointOfFolder(data: string, name: string): Promise<Outcome<string>> {
  const { lockHolder } = await import('../../customers/subscriptions/lock.ts')
  if ((await lockHolder(data)) === null)
    return absent(`no server runs on ${data}: start it, or name the server with --url`)
  const endpoints = readEndpoints(data)
  if (endpoints === null) return absent(`the server on ${data} is starting or stopping`)
  const address = endpoints[name]
  if (address === undefined) return absent(`the server on ${data} does not serve ${name}`)
  const host = address.host.includes(':') ? `[${address.host}]` : address.host
  return accept(`${address.tls ? 'https' : 'http'}://${host}:${address.port}`)
}

/** Why `url` gave no answer, with the remedy for a certificate that is not trusted here. */
export function noAnswer(url: string, error: unknown, hasCaFlag: boolean): Outcome<never> {
  // What fetch throws has its reason inside.
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const isUntrusted = /self.signed|issuer cert|unable to verify|unknown ca/i.test(messageOf(cause))
  const flag = hasCaFlag ? 'name its certificate with --ca, or ' : ''
  const remedy = `; ${flag}set NODE_EXTRA_CA_CERTS to the file of its certificate`
  return refuse(
    'unavailable',
    'no-answer',
    `no answer from ${url}: ${messageOf(cause)}${isUntrusted ? remedy : ''}`,
  )
}

/** The refusal of a command whose token is missing or not accepted. */
export function noToken(url: string, hasToken: boolean): Outcome<never> {
  const advice = hasToken
    ? `${url} does not accept this token`
    : `${url} wants a token: name a file that contains one with --token-file`
  return refuse('unauthenticated', 'unauthorized', advice)
}

function absent(message: string): Outcome<never> {
  return refuse('unavailable', 'no-server', message)
}
