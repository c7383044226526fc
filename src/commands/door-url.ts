// Where a door of the server on this data folder is. Thread: main. Used by tail and query.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

interface Place {
  readonly host: string
  readonly port: number
}

/** What the running server wrote down, or where the door would be. */
export function doorUrl(data: string, name: string, otherwise: Place): string {
  let door = { ...otherwise, tls: false }
  try {
    const doors = JSON.parse(readFileSync(join(resolve(data), 'doors.json'), 'utf8'))
    door = doors[name] ?? door
  } catch {
    // No file: no server runs on this folder, or another user's; the connection will tell.
  }
  const host = door.host.includes(':') ? `[${door.host}]` : door.host
  return `${door.tls ? 'https' : 'http'}://${host}:${door.port}`
}
