// `sluice context ...`: manages servers with their credentials under names.
// Secrets are stored only on request, in files of their owner alone, and never printed.
import { resolve } from 'node:path'
import { accept, type Outcome } from '../../base/errors.ts'
import {
  askCredentials,
  type Context,
  contextInUse,
  contextNames,
  credentialFlags,
  isContextName,
  isTerminal,
  knownCredentials,
  pathOf,
  readContext,
  removeContext,
  saveContext,
  useContext,
} from './credentials.ts'
import { recordOf, tableOf } from './output.ts'
import {
  type Call,
  flagTable,
  misuse,
  type PositionalSpec,
  type Report,
  type Verb,
} from './verb.ts'

const nameSpec: PositionalSpec = { name: 'name', doc: 'Name of the context.', words: 'contexts' }
const endpointNames = ['rpc', 'websocket', 'grpc', 'tpu', 'indexer', 'metrics']

export const contextVerbs: readonly Verb[] = [
  {
    words: ['context', 'save'],
    summary: 'Save a server and the credentials for it, for query, tail and call.',
    examples: [
      'context save demo',
      'context save acme --credentials acme.env --endpoint rpc=https://rpc.example.com:8899',
    ],
    positionals: [{ ...nameSpec, doc: 'Letters, digits, dot, dash and underscore.' }],
    flags: [
      ...credentialFlags,
      ...flagTable(`
      --endpoint <name=url> ...  An endpoint of a server elsewhere: ${endpointNames.join(', ')}.`),
    ],
    run: save,
  },
  {
    words: ['context', 'list'],
    summary: 'List the contexts and the one in use.',
    examples: ['context list'],
    async run() {
      const used = contextInUse()
      const contexts = contextNames().map((name) => ({ name, isUsed: name === used }))
      const rows = contexts.map(({ name, isUsed }) => [
        name,
        isUsed ? 'in use' : '',
        serverOf(name),
      ])
      const empty = 'No contexts. Save one with: npx --no -- sluice context save <name>'
      return accept({ json: { contexts }, text: tableOf(['name', 'state', 'server'], rows, empty) })
    },
  },
  onOne('use', 'Make a context the one that is used without --context.', ({ name }) => {
    useContext(name)
    return `${name} is in use.`
  }),
  onOne('show', 'Show a context; secrets are hidden.', () => ''),
  onOne('remove', 'Delete a context and its credentials.', ({ name }) => {
    removeContext(name)
    return `${name} was removed.`
  }),
]

async function save(call: Call): Promise<Outcome<Report>> {
  const [name = ''] = call.positionals
  if (!isContextName(name))
    return misuse('<name> must be letters, digits, dots, dashes and underscores, at most 64')
  const endpoints = endpointsOf(call)
  if (!endpoints.ok) return endpoints
  const known = knownCredentials(call, null)
  if (!known.ok) return known
  const isAsked = known.value.token === '' && isTerminal()
  const credentials = isAsked ? await askCredentials(known.value) : known.value
  if (credentials.token === '')
    return misuse('a token is missing: name a file with --credentials or --token-file')
  const isElsewhere = Object.keys(endpoints.value).length > 0
  const hasFolder = !isElsewhere || call.loaded.origins.has('data')
  const data = hasFolder ? resolve(call.loaded.config.data) : null
  const context: Context = { name, data, endpoints: endpoints.value, ...credentials }
  saveContext(context)
  const use =
    contextInUse() === name
      ? 'It is in use.'
      : `Use it with: npx --no -- sluice context use ${name}`
  const done = `${name} was saved in ${pathOf(name)}, readable by you alone. ${use}`
  return accept(reportOf(context, done))
}

function endpointsOf(call: Call): Outcome<Record<string, string>> {
  const pairs = (call.flags.get('endpoint') ?? []).map((text) => {
    const [name = ''] = text.split('=', 1)
    return [name, text.slice(name.length + 1)] as const
  })
  const wrong = pairs.find(([name, url]) => !endpointNames.includes(name) || !URL.canParse(url))
  if (wrong === undefined) return accept(Object.fromEntries(pairs))
  return misuse(`--endpoint must be a name and a URL, such as ${wrong[0]}=https://host:8899`)
}

/** A verb on one context: the sentence of `act`, then the record. */
function onOne(word: string, summary: string, act: (context: Context) => string): Verb {
  return {
    words: ['context', word],
    summary,
    examples: [`context ${word} demo`],
    positionals: [nameSpec],
    async run({ positionals: [name = ''] }) {
      const found = readContext(name)
      return found.ok ? accept(reportOf(found.value, act(found.value))) : found
    },
  }
}

function reportOf(context: Context, done: string): Report {
  const { name, data, endpoints, user, token, password } = context
  const tokenLast4 = token.slice(-4)
  const record = recordOf([
    ['name', name],
    ['data folder', data ?? ''],
    ...Object.entries(endpoints),
    ['token', `...${tokenLast4}`],
    ['user', user],
    ['password', password === '' ? '' : '(set)'],
  ])
  const json = { name, data, endpoints, user, tokenLast4, isUsed: contextInUse() === name }
  return { json, text: done === '' ? record : `${done}\n\n${record}` }
}

function serverOf(name: string): string {
  const found = readContext(name)
  if (!found.ok) return found.refusal.message
  return [found.value.data ?? [], ...Object.values(found.value.endpoints)].flat().join(' ')
}
