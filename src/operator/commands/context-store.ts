// Keeps contexts: a server and the credentials for it under a name, in the user's home folder.
// Folder 0700, files 0600; a file that other users can read is refused.
//
//   ~/.sluice/contexts/<name>.json    one context
//   ~/.sluice/context                 the name of the one in use
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
import { join } from 'node:path'
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'

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
