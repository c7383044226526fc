// Describes the operator API as OpenAPI 3.1, from its routes and what their verbs answer.
import type { Input, Route } from './routes.ts'

type Schema = Readonly<Record<string, unknown>>

/**
 * The members of an object: `name?` may be absent; a value is `text`, `count`, `number`, `flag`,
 * `object`, the name of a shape below, a list of one of them in brackets, or ends in `|null`.
 */
type Shape = Readonly<Record<string, string>>

const texts = (names: string): Shape =>
  Object.fromEntries(names.split(' ').map((name) => [name, 'text']))

const shapes: Readonly<Record<string, Shape>> = {
  Subscription: {
    ...texts('id label plan state tokenLast4 note until? createdAt changedAt'),
    ...{ products: '[text]', cidrs: '[text]', upstream: 'text|null' },
    destination: 'Destination|null',
  },
  Destination: { ...texts('address state'), standing: 'text|null' },
  Credentials: { tokenLast4: 'text', graceUntil: 'text|null', hasIndexerPassword: 'flag' },
  IndexerCredentials: texts('user password?'),
  Consumer: { ...texts('name used'), slot: 'count|null', commitment: 'text|null' },
  AuditEntry: {
    ...texts('at who what subject after reason previous hash'),
    ...{ seq: 'count', before: 'text|null' },
  },
  Product: {
    ...texts('product name purpose authorization state'),
    ...{ address: 'text|null', source: 'text|null' },
  },
  Gateway: { name: 'text', isRunning: 'flag', ageSecs: 'count' },
  AuditHead: { seq: 'count', hash: 'text' },
}

const subscription: Shape = { subscription: 'Subscription' }
const destination: Shape = { id: 'text', label: 'text', destination: 'Destination|null' }
const drained: Shape = { node: 'text', state: 'text', waiting: 'count' }

/** What each verb answers; members that a shape does not name may be added. */
const answers: Readonly<Record<string, Shape>> = {
  'subscription add': { ...subscription, 'token?': 'text', 'indexer?': 'IndexerCredentials' },
  'subscription set': { ...subscription, 'indexer?': 'IndexerCredentials' },
  'subscription list': { subscriptions: '[Subscription]' },
  'subscription show': { ...subscription, credentials: 'Credentials' },
  'subscription suspend': subscription,
  'subscription resume': subscription,
  'subscription end': subscription,
  'token rotate': { ...subscription, 'token?': 'text', graceUntil: 'text|null' },
  'indexer rotate': { ...subscription, indexer: 'IndexerCredentials' },
  'note add': subscription,
  'consumer list': { id: 'text', label: 'text', consumers: '[Consumer]' },
  'consumer reset': { id: 'text', label: 'text', reset: 'count' },
  'destination set': destination,
  'destination confirm': destination,
  'destination pause': destination,
  'destination resume': destination,
  'destination clear': destination,
  'destination show': destination,
  usage: { 'usage?': '[object]', 'month?': 'text', 'window?': 'object', 'days?': '[object]' },
  'audit show': { entries: '[AuditEntry]' },
  'audit verify': { ok: 'flag', entries: 'count', 'head?': 'text', 'problem?': 'text' },
  status: { running: 'flag', 'version?': 'text', 'pid?': 'count', 'doors?': 'object' },
  products: { products: '[Product]', 'warnings?': '[text]' },
  'tip-accounts': { tipAccounts: '[text]' },
  tips: { accepted: 'count', landed: 'count', rejected: 'object', last: '[object]' },
  shreds: { totals: 'object', sources: '[object]', destinations: '[object]', slots: '[object]' },
  'node drain': drained,
  'node resume': drained,
  'cluster status': { registry: 'AuditHead', gateways: '[Gateway]' },
}

const simple: Readonly<Record<string, Schema>> = {
  text: { type: 'string' },
  count: { type: 'integer', minimum: 0 },
  number: { type: 'number' },
  flag: { type: 'boolean' },
  object: { type: 'object' },
}

const failure = {
  description: 'Refused; nothing was changed unless the code is outcome-unknown.',
  content: { 'application/json': { schema: reference('Error') } },
}

export function describeApi(routes: readonly Route[], version: string) {
  const schemas = Object.entries(shapes).map(([name, shape]) => [name, objectOf(shape)] as const)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice operator API',
      version,
      description: 'The verbs of the command `sluice` over HTTP, for the operator.',
    },
    servers: [{ url: 'http://localhost', description: '<data>/operator-http.sock' }],
    security: [{ credential: [] }, {}],
    paths: {
      ...Object.fromEntries(routes.map((route) => [route.path, pathOf(route)])),
      '/metrics': { get: textPath('Figures per customer, for Prometheus.', 'text/plain') },
      '/openapi.json': { get: textPath('This document.', 'application/json') },
    },
    components: {
      securitySchemes: { credential: { type: 'http', scheme: 'bearer' } },
      schemas: { ...Object.fromEntries(schemas), Error: errorSchema },
    },
  }
}

function pathOf(route: Route) {
  const { method, verb, inputs } = route
  const name = verb.words.join(' ')
  const isChange = method === 'POST'
  const shape = answers[name] ?? {}
  const answer = objectOf(
    isChange ? { ...shape, 'repeated?': 'flag', 'warnings?': '[text]' } : shape,
  )
  const operation = {
    operationId: verb.words.join('-'),
    summary: verb.summary,
    parameters: isChange ? [idempotencyKey] : inputs.map(parameterOf),
    ...(isChange && { requestBody: bodyOf(inputs) }),
    responses: {
      200: { description: 'Done.', content: { 'application/json': { schema: answer } } },
      default: failure,
    },
  }
  return { [method.toLowerCase()]: operation }
}

const idempotencyKey = {
  name: 'idempotency-key',
  in: 'header',
  description:
    'Makes the change once in 24 hours: a repeated request gets the first answer without its ' +
    'secrets and with `repeated`; another request under the key is 422.',
  schema: { type: 'string', minLength: 1, maxLength: 128 },
}

function parameterOf({ key, spec, isRequired }: Input) {
  const schema = inputSchema(spec)
  return { name: key, in: 'query', required: isRequired, description: spec.doc, schema }
}

function bodyOf(inputs: readonly Input[]) {
  const members = inputs.map(({ key, spec }) => {
    return [key, { ...inputSchema(spec), description: spec.doc }] as const
  })
  const required = inputs.filter(({ isRequired }) => isRequired).map(({ key }) => key)
  const schema = {
    type: 'object',
    properties: Object.fromEntries(members),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  }
  return { required: required.length > 0, content: { 'application/json': { schema } } }
}

function inputSchema(spec: Input['spec']): Schema {
  const { options, many } = spec
  const [minimum, maximum] = ('range' in spec ? spec.range : undefined) ?? []
  const one =
    minimum === undefined
      ? { type: 'string', ...(options !== undefined && { enum: options }) }
      : { type: 'integer', minimum, maximum }
  return many === true ? { type: 'array', items: one } : one
}

function textPath(summary: string, type: string) {
  const content = { [type]: { schema: {} } }
  return { summary, responses: { 200: { description: summary, content }, default: failure } }
}

function objectOf(shape: Shape): Schema {
  const members = Object.entries(shape).map(
    ([name, kind]) => [name.replace('?', ''), kind] as const,
  )
  const required = Object.keys(shape).filter((name) => !name.endsWith('?'))
  return {
    type: 'object',
    properties: Object.fromEntries(members.map(([name, kind]) => [name, schemaOf(kind)])),
    ...(required.length > 0 && { required }),
  }
}

function schemaOf(kind: string): Schema {
  if (kind.endsWith('|null')) return { anyOf: [schemaOf(kind.slice(0, -5)), { type: 'null' }] }
  if (kind.startsWith('[')) return { type: 'array', items: schemaOf(kind.slice(1, -1)) }
  return simple[kind] ?? reference(kind)
}

function reference(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` }
}

const errorSchema = {
  type: 'object',
  properties: {
    error: {
      type: 'object',
      properties: {
        code: { type: 'string', description: 'Stable; programs may match on it.' },
        message: { type: 'string' },
        data: { type: 'object', description: 'Secrets that are valid if the change was made.' },
      },
      required: ['code', 'message'],
    },
  },
  required: ['error'],
}
