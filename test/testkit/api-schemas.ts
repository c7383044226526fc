// Checks answers and frames against docs/openapi.json and docs/asyncapi.json.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { root } from './tree.ts'

export type Json = Record<string, unknown>

export const openapi = read('openapi.json')
export const asyncapi = read('asyncapi.json')

const ajv = new Ajv2020({ strict: false, allErrors: true })
ajv.addSchema({ ...openapi, $id: 'openapi.json' })
ajv.addSchema({ ...asyncapi, $id: 'asyncapi.json' })

function read(name: string): Json {
  return JSON.parse(readFileSync(join(root, 'docs', name), 'utf8'))
}

/** The value at a JSON pointer of a document; undefined when there is none. */
export function at(document: Json, pointer: string): unknown {
  const keys = pointer.split('/').slice(1)
  return keys.reduce<unknown>(
    (value, key) => (value as Json | undefined)?.[key.replaceAll('~1', '/').replaceAll('~0', '~')],
    document,
  )
}

/** What is wrong with a value by the schema at a pointer, as sentences. */
export function problems(document: 'openapi' | 'asyncapi', pointer: string, value: unknown) {
  const check = ajv.getSchema(`${document}.json#${pointer}`)
  if (check === undefined) throw new Error(`${document}.json has no ${pointer}`)
  if (check(value)) return []
  return (check.errors ?? []).map(
    ({ instancePath, message, params }) =>
      `${instancePath || 'the value'} ${message} ${JSON.stringify(params)}`,
  )
}

/** The pointer of the schema of a response: its own status, else `default`. */
export function responseSchema(verb: string, path: string, status: number): string {
  const responses = `/paths/${path.replaceAll('/', '~1')}/${verb}/responses`
  const known = at(openapi, `${responses}/${status}`) !== undefined ? String(status) : 'default'
  const found = at(openapi, `${responses}/${known}`) as { $ref?: string } | undefined
  if (found === undefined) throw new Error(`no response ${status} of ${verb} ${path}`)
  const response = found.$ref?.slice(1) ?? `${responses}/${known}`
  return `${response}/content/application~1json/schema`
}

/** Fails unless the document describes this answer. */
export function expectDescribed(
  verb: string,
  path: string,
  answer: { readonly status: number; readonly body: unknown },
): void {
  const found = problems('openapi', responseSchema(verb, path, answer.status), answer.body)
  if (found.length > 0)
    throw new Error(
      `${verb} ${path} ${answer.status} is not as described:\n  ${found.join('\n  ')}`,
    )
}

/** Fails unless the document describes this frame of the stream. */
export function expectFrame(frame: Json): void {
  const kind = Object.keys(frame).find((key) => key !== 'seq')
  const found = problems('asyncapi', `/components/messages/${kind}/payload`, frame)
  if (found.length > 0) throw new Error(`${kind} is not as described:\n  ${found.join('\n  ')}`)
}
