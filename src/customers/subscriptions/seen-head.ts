// Detects a registry restored from an older copy, by the newest audit entry in
// `<data>/registry-head`. In an older copy revoked tokens would work again: no server
// starts on it until the operator accepts it by removing the file.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Fault, messageOf } from '../../base/errors.ts'
import type { AuditHead } from './audit.ts'

/** Why the registry must not be used; null when it may. */
export function problemOfRegistry(
  data: string,
  registry: { holds(head: AuditHead): boolean },
): string | null {
  const seen = readSeenHead(data)
  if (seen === null || registry.holds(seen)) return null
  return (
    `the registry lacks change ${seen.seq}, which a server on this folder has seen: it is an ` +
    'older copy, and tokens revoked since then would work again; restore the newer copy, or ' +
    `accept this one by removing ${fileIn(data)}`
  )
}

/** Replaces the file atomically. Throws when the write fails. */
export function writeSeenHead(data: string, { seq, hash }: AuditHead): void {
  const fresh = `${fileIn(data)}.${process.pid}`
  writeFileSync(fresh, `${seq} ${hash}\n`, { mode: 0o600 })
  renameSync(fresh, fileIn(data))
}

export function readSeenHead(data: string): AuditHead | null {
  let text: string
  try {
    text = readFileSync(fileIn(data), 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new Fault('registry-head', messageOf(cause), { cause })
  }
  const [, seq, hash] = /^(\d+) ([0-9a-f]{64})\n$/.exec(text) ?? []
  if (seq === undefined || hash === undefined)
    throw new Fault('registry-head', `${fileIn(data)} is damaged: remove it and start again`)
  return { seq: Number(seq), hash }
}

function fileIn(data: string): string {
  return join(data, 'registry-head')
}
