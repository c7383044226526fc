// docs/openapi.json and docs/asyncapi.json: valid by their specifications, closed, and in step with
// the routes and the golden files.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv } from 'ajv'
import { describe, expect, test } from 'vitest'
import { httpOptions } from '../../../../src/products/metrics/routes.ts'
import { streamKinds } from '../../../../src/streams/log/encoded.ts'
import {
  asyncapi,
  at,
  expectDescribed,
  expectFrame,
  type Json,
  openapi,
  problems,
} from '../../../testkit/api-schemas.ts'
import { root } from '../../../testkit/tree.ts'

const goldenFolder = join(root, 'test', 'golden', 'metrics')

/** A golden file as a value: `name?` is an optional field. */
function golden(name: string): Json {
  const text = readFileSync(join(goldenFolder, `${name}.json`), 'utf8')
  return JSON.parse(text.replaceAll(/\?":/g, '":'))
}

describe('the documents', () => {
  test('are valid OpenAPI 3.1 and AsyncAPI 3.0', async () => {
    const validator = new Validator()
    const { valid, errors } = await validator.validate(structuredClone(openapi))
    expect([valid, errors]).toEqual([true, undefined])
    expect(validator.version).toBe('3.1')
    const path = join(root, 'node_modules/@asyncapi/specs/schemas/3.0.0.json')
    // The specification brings the meta-schema of draft 07 along.
    const ajv = new Ajv({ strict: false, meta: false, validateFormats: false })
    const { $schema, ...specification } = JSON.parse(readFileSync(path, 'utf8'))
    const check = ajv.compile(specification)
    check(asyncapi)
    expect(check.errors ?? []).toEqual([])
    expect(check({ ...asyncapi, operations: { shout: { action: 'shout' } } })).toBe(false)
    const broken = { ...structuredClone(openapi), paths: { '/v1/tps': { get: { responses: 1 } } } }
    expect((await new Validator().validate(broken)).valid).toBe(false)
  })

  test('have no reference that leads nowhere, and no schema that nothing uses', () => {
    for (const document of [openapi, asyncapi]) {
      const text = JSON.stringify(document)
      const references = new Set([...text.matchAll(/"\$ref":"#([^"]+)"/g)].map(([, to]) => to!))
      for (const to of references) expect([to, at(document, to)]).not.toEqual([to, undefined])
      const schemas = Object.keys(at(document, '/components/schemas') as Json)
      const unused = schemas.filter((name) => !references.has(`/components/schemas/${name}`))
      expect(unused).toEqual([])
    }
  })

  test('describe the shared kinds with the same words', () => {
    const [rest, stream] = [openapi, asyncapi].map((one) => at(one, '/components/schemas') as Json)
    const shared = Object.keys(stream!).filter((name) => name in rest!)
    expect(shared).toContain('ContentionData')
    for (const name of shared) expect([name, stream![name]]).toEqual([name, rest![name]])
  })

  test('describe every object closed, so that an undocumented field is found', () => {
    for (const document of [openapi, asyncapi])
      for (const [path, schema] of objectsIn(at(document, '/components')))
        expect([path, schema.additionalProperties]).toEqual([path, false])
    const frame = golden('frame-tps')
    expectFrame(frame)
    expect(() => expectFrame({ ...frame, extra: 1 })).toThrow('additional')
    const contention = golden('contention')
    expectDescribed('get', '/v1/contention', { status: 200, body: contention })
    expect(() =>
      expectDescribed('get', '/v1/contention', { status: 200, body: { ...contention, extra: 1 } }),
    ).toThrow('additional')
    const { block_hash, ...without } = contention
    expect(() => expectDescribed('get', '/v1/contention', { status: 200, body: without })).toThrow(
      'block_hash',
    )
  })
})

/** Schemas of objects below a value, with their pointers. */
function* objectsIn(value: unknown, path = ''): Generator<[string, Json]> {
  if (typeof value !== 'object' || value === null) return
  const schema = value as Json
  if (schema.type === 'object' && 'properties' in schema) yield [path, schema]
  for (const [key, child] of Object.entries(schema)) yield* objectsIn(child, `${path}/${key}`)
}

describe('the routes', () => {
  /** The live page and its files are not an interface. */
  const isPage = (path: string) => path.startsWith('/live')

  test('are all described, and nothing else is', () => {
    // Reason for the cast: listing the routes reads none of the parts.
    const { routes } = httpOptions({ clock: {}, meters: {}, limits: {} } as never)
    const served = routes
      .filter(({ path }) => !isPage(path))
      .map(({ verb, path }) => `${verb} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
    const described = Object.entries(openapi.paths as Json).flatMap(([path, operations]) =>
      Object.keys(operations as Json).map((verb) => `${verb.toUpperCase()} ${path}`),
    )
    expect(described.sort()).toEqual(served.sort())
  })

  test('of the stream and its kinds are described', () => {
    const addresses = Object.values(asyncapi.channels as Json).map((one) => (one as Json).address)
    expect(addresses.sort()).toEqual(['/', '/v1/ws'])
    expect(at(asyncapi, '/components/schemas/Kind/enum')).toEqual(streamKinds)
  })
})

describe('the golden files', () => {
  const names = readdirSync(goldenFolder).map((name) => name.replace(/\.json$/, ''))
  const frames = names.filter((name) => name.startsWith('frame-'))

  test.each(frames)('%s is as described', (name) => expectFrame(golden(name)))

  test('are one for every message that the server sends', () => {
    const kinds = frames.map((name) => Object.keys(golden(name))[1]).sort()
    const messages = at(asyncapi, '/operations/sendEvents/messages') as { $ref: string }[]
    expect(kinds).toEqual(messages.map(({ $ref }) => $ref.split('/').at(-1)).sort())
  })

  test('of REST and JSON-RPC are as described', () => {
    const answers: Readonly<Record<string, string>> = {
      tps: '/v1/tps',
      contention: '/v1/contention',
      top: '/v1/top',
      solana: '/v1/solana',
      blocks: '/v1/blocks',
      status: '/v1/status',
      lifecycles: '/v1/blocks/lifecycle',
      lifecycle: '/v1/blocks/{number}/lifecycle',
      health: '/health',
      ready: '/ready',
    }
    for (const [name, path] of Object.entries(answers))
      expectDescribed('get', path, { status: 200, body: golden(name) })
    expectDescribed('post', '/v1/ticket', { status: 200, body: golden('ticket') })
    expectDescribed('get', '/v1/contention', { status: 404, body: golden('error') })
    expect(problems('openapi', '/components/schemas/Block', golden('rpc-block'))).toEqual([])
    const failed = { ...golden('rpc-error'), id: null }
    expectDescribed('post', '/', { status: 200, body: failed })
    const others = ['error', 'rpc-block', 'rpc-error', 'ticket']
    expect(names.filter((name) => !frames.includes(name)).sort()).toEqual(
      [...Object.keys(answers), ...others].sort(),
    )
  })
})
