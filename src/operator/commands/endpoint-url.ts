// Finds the endpoint that a command calls, and whether a context's credentials belong to it.
// The folder's lock must show that its server runs: otherwise any process may listen
// on the port, and the command would send it credentials.
//
//   --url, else --data, else the context, else the configured data folder
//
// The credentials of a context go only to the server that it was saved for.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { type Context, contextInUse, readContext } from './context-store.ts'
import { type Call, type FlagSpec, flagOf } from './verb.ts'

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

function absent(message: string): Outcome<never> {
  return refuse('unavailable', 'no-server', message)
}
