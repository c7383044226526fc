// `sluice query`: runs SQL on the indexer, one statement or a shell.
// With a statement as argument or on standard input it prints the result and exits; on a terminal
// without one it starts the shell.
import { readFileSync } from 'node:fs'
import { text as textOf } from 'node:stream/consumers'
import { accept, messageOf, type Outcome } from '../../base/errors.ts'
import { credentialFlags, readCredentials } from './credentials.ts'
import { contextFlag, findEndpoint } from './endpoint-url.ts'
import type { QueryTarget } from './query-client.ts'
import { type QueryForm, queryForms, runQuery } from './query-run.ts'
import { runShell } from './query-shell.ts'
import { type Call, flagOf, flagTable, misuse, type Report, type Verb } from './verb.ts'

export const queryVerb: Verb = {
  words: ['query'],
  summary: 'Query the indexer in SQL: one statement, standard input, or a shell.',
  examples: [
    'query "SELECT count() FROM transactions"',
    'query --context demo --output csv < questions.sql',
  ],
  positionals: [{ name: 'sql', doc: 'The statement [standard input].', optional: true }],
  flags: [
    { name: 'url', value: 'url', doc: 'The indexer [the server of the data folder].' },
    contextFlag,
    ...credentialFlags,
    { name: 'ca', value: 'file', doc: 'Certificate of the authority of a TLS endpoint.' },
    ...flagTable(`
    --output <form ${queryForms.join('|')}>  A table, one JSON object per line, or CSV [table].`),
  ],
  async run(call) {
    const target = await targetOf(call)
    if (!target.ok) return target
    const form = (flagOf(call, 'output') ?? 'table') as QueryForm
    const [given] = call.positionals
    if (given === undefined && process.stdin.isTTY) return runShell(target.value, form)
    const sql = given ?? (await textOf(process.stdin))
    if (sql.trim() === '') return misuse('<sql> is empty: give a statement')
    return once(target.value, sql, form)
  },
}

async function once(target: QueryTarget, sql: string, form: QueryForm): Promise<Outcome<Report>> {
  const leave = new AbortController()
  const stop = () => leave.abort()
  process.once('SIGINT', stop)
  const done = await runQuery(target, sql, form, leave.signal)
  process.removeListener('SIGINT', stop)
  return done.ok ? accept({ json: {}, text: '', isPrinted: true }) : done
}

async function targetOf(call: Call): Promise<Outcome<QueryTarget>> {
  const found = await findEndpoint(call, 'indexer')
  if (!found.ok) return found
  const { url, context } = found.value
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : ''))
    return misuse('--url must be an http or https address')
  const path = flagOf(call, 'ca')
  let ca: string | null = null
  try {
    ca = path === undefined ? null : readFileSync(path, 'utf8')
  } catch (error) {
    return misuse(messageOf(error))
  }
  const credentials = await readCredentials(call, context)
  return credentials.ok ? accept({ url, ca, ...credentials.value }) : credentials
}
