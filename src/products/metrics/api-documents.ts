// Serves docs/openapi.json and docs/asyncapi.json: REST and JSON-RPC, and the event stream.
// Read on the first request and kept; the package contains docs/.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../base/threads/entry.ts'
import { type Answer, error } from './rest.ts'

const names = ['openapi.json', 'asyncapi.json'] as const
export type DocumentName = (typeof names)[number]

/** Paths that serve a document; they need no token. */
export const documentPaths: readonly `/${DocumentName}`[] = names.map((name) => `/${name}` as const)

const kept = new Map<string, Answer>()

/** The document of a path; 404 where the package was installed without docs/. */
export function documentAt(path: `/${DocumentName}`): Answer {
  const known = kept.get(path) ?? read(path)
  kept.set(path, known)
  return known
}

function read(path: string): Answer {
  try {
    return { status: 200, body: readFileSync(join(packageRoot(), 'docs', path)) }
  } catch {
    return error(404, 'this installation has no documents')
  }
}
