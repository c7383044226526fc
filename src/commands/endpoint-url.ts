// Finds the URL of an endpoint of the server on a data folder. Thread: main.
// The folder's lock must show that the server runs: otherwise any process may listen on the
// port, and `query` and `tail` would send it their credentials.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { type Call, flagOf } from './verb.ts'

interface Address {
  readonly host: string
  readonly port: number
  readonly tls: boolean
}

/** The URL of --url, else the endpoint that the running server wrote into `doors.json`. */
export async function endpointUrl(call: Call, name: string): Promise<Outcome<string>> {
  const given = flagOf(call, 'url')
  if (given !== undefined) return accept(given)
  const { data } = call.loaded.config
  const { lockHolder } = await import('../subscriptions/lock.ts')
  if ((await lockHolder(resolve(data))) === null)
    return absent(`no server runs on ${data}: start it, or name the server with --url`)
  const endpoints = readEndpoints(data)
  if (endpoints === null) return absent(`the server on ${data} is starting or stopping`)
  const address = endpoints[name]
  if (address === undefined) return absent(`the server on ${data} does not serve ${name}`)
  const host = address.host.includes(':') ? `[${address.host}]` : address.host
  return accept(`${address.tls ? 'https' : 'http'}://${host}:${address.port}`)
}

/** What the server on that folder wrote; null when none has. */
export function readEndpoints(data: string): Readonly<Record<string, Address | undefined>> | null {
  try {
    return JSON.parse(readFileSync(join(resolve(data), 'doors.json'), 'utf8'))
  } catch {
    return null
  }
}

function absent(message: string): Outcome<never> {
  return refuse('unavailable', 'no-server', message)
}
