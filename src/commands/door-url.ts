// Where an endpoint of the server on a data folder is. Thread: main.
// Only a server that runs on the folder counts, which its lock shows: without one, anybody may
// listen on the port, and `query` and `tail` would send it their credentials.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { accept, type Outcome, refuse } from '../base/errors.ts'

interface Place {
  readonly host: string
  readonly port: number
  readonly tls: boolean
}

/** The endpoint that the running server wrote into `doors.json`. */
export async function doorUrl(data: string, name: string): Promise<Outcome<string>> {
  const { lockHolder } = await import('../subscriptions/lock.ts')
  if ((await lockHolder(resolve(data))) === null)
    return absent(`no server runs on ${data}: start it, or name the server with --url`)
  const doors = readDoors(data)
  if (doors === null) return absent(`the server on ${data} is starting or stopping`)
  const place = doors[name]
  if (place === undefined) return absent(`the server on ${data} does not serve ${name}`)
  const host = place.host.includes(':') ? `[${place.host}]` : place.host
  return accept(`${place.tls ? 'https' : 'http'}://${host}:${place.port}`)
}

function readDoors(data: string): Readonly<Record<string, Place | undefined>> | null {
  try {
    return JSON.parse(readFileSync(join(resolve(data), 'doors.json'), 'utf8'))
  } catch {
    return null
  }
}

function absent(message: string): Outcome<never> {
  return refuse('unavailable', 'no-server', message)
}
