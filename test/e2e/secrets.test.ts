// After a run with every credential in every position, good and bad, no secret is anywhere:
// not in a log, a metric, an error, an audit entry or a file of the data folder.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  littleTraffic,
  provision,
  type Server,
  sluiceHere,
  startServer,
} from '../testkit/server.ts'
import { openSocket, tryGrpc, tryRpc, tryWebsocket } from '../testkit/try-endpoint.ts'
import { until } from '../testkit/until.ts'

test('no token, password or query string is written anywhere', async () => {
  const taken = ['--websocket.queryToken=true', '--indexer.tokenInPassword=true']
  const flags = ['--logLevel=debug', ...taken, ...littleTraffic]
  const server = await startServer({ flags, isWhole: true })
  const written: string[] = []
  const secrets = new Map<string, string>([
    ['the token of demo', server.token],
    ['the password of demo', server.indexer.password],
  ])
  const added = await provision(server.data, 'acme', '--product=bundle,indexer')
  secrets.set('a token', added.token)
  secrets.set('a password', added.indexer!.password)
  const rotated = await sluiceHere(server.data, 'token', 'rotate', 'acme', '--yes', '--output=json')
  secrets.set('a rotated token', (JSON.parse(rotated.stdout) as { token: string }).token)
  const fresh = await sluiceHere(server.data, 'indexer', 'rotate', 'acme', '--yes', '--output=json')
  secrets.set('a rotated password', passwordIn(fresh.stdout))

  const token = secrets.get('a rotated token')!
  const marker = 'query-string-that-nobody-keeps'
  secrets.set('a query string', marker)
  await until(
    async () => (await tryRpc(server, { query: `?api-key=${token}&x=${marker}` })).status === 200,
    'the token to work',
  )
  for (const value of secrets.values())
    for (const sent of [
      { headers: [['x-token', value]] as [string, string][] },
      { headers: [['authorization', `Bearer ${value}`]] as [string, string][] },
      { headers: [['x-api-key', value]] as [string, string][] },
      { headers: [['sec-websocket-protocol', `x-token.${value}`]] as [string, string][] },
      { query: `?api-key=${value}` },
      { query: `/unknown/${value}?api_key=${value}` },
    ]) {
      written.push((await tryRpc(server, sent)).body, (await tryRpc(server, sent, value)).body)
      written.push((await tryWebsocket(server, sent)).body)
      if (sent.query === undefined) written.push((await tryGrpc(server, sent)).body)
    }
  for (const value of secrets.values()) written.push(...(await tryIndexer(server, value)))
  const socket = await openSocket(server, token)
  socket.send('{"broken')
  socket.close()
  for (const verb of [
    ['subscription', 'list'],
    ['subscription', 'show', 'acme'],
    ['audit', 'show'],
    ['audit', 'verify'],
    ['usage', 'acme'],
    ['status'],
    ['doctor'],
    ['config', 'print'],
  ])
    for (const output of ['table', 'json']) {
      const { stdout, stderr } = await sluiceHere(server.data, ...verb, `--output=${output}`)
      written.push(stdout, stderr)
    }
  if (server.doors.metrics !== undefined)
    written.push(await (await fetch(`${server.url('metrics')}/metrics`)).text())

  // The files are searched while the server runs and again when it has stopped.
  const running = filesOf(server.data)
  await server.stop()
  const searched = new Map<string, Buffer>([
    ['stderr', Buffer.from(server.stderr())],
    ['answers and commands', Buffer.from(written.join('\n'))],
    ['stdout after the credentials', Buffer.from(afterCredentials(server.stdout()))],
    ...running,
    ...filesOf(server.data),
  ])
  expect(searched.size).toBeGreaterThan(3)
  const found = [...secrets].flatMap(([name, secret]) =>
    [...searched].filter(([, bytes]) => bytes.includes(secret)).map(([at]) => `${name} in ${at}`),
  )
  expect(found).toEqual([])
  // The embedded chain's, which nobody outside of the server ever has.
  const chain = [...searched].filter(([, bytes]) =>
    /devnode-[\w-]{43}/.test(bytes.toString('latin1')),
  )
  expect(chain.map(([at]) => at)).toEqual([])
  await server.dispose()
})

function passwordIn(json: string): string {
  const password = /"password":\s*"([0-9A-Za-z]{32})"/.exec(json)?.[1]
  expect(password).toBeDefined()
  return password!
}

/** What follows the three lines that are meant to show them. */
function afterCredentials(stdout: string): string {
  return stdout.replace(/^(TOKEN|INDEXER_USER|INDEXER_PASSWORD)=.*$/gm, '')
}

function filesOf(folder: string): [string, Buffer][] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .flatMap((path): [string, Buffer][] => {
      // The indexer replaces its files meanwhile.
      if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) return []
      try {
        return [[path, readFileSync(path)]]
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
        throw error
      }
    })
}

/** A secret as token, as password, as user and inside SQL; none of it is a good pair. */
async function tryIndexer(server: Server, value: string): Promise<string[]> {
  const pairs = [`${server.indexer.user}:${value}`, `${value}:${server.indexer.password}`]
  const sql = `SELECT '${value}', ${'nonsense'.repeat(3)} FROM nowhere`
  const url = `${server.url('indexer')}/?query=${encodeURIComponent(sql)}&param_p=${value}`
  const texts: string[] = []
  for (const token of [value, server.token])
    for (const pair of [...pairs, `${server.indexer.user}:${server.indexer.password}`]) {
      const authorization = `Basic ${Buffer.from(pair).toString('base64')}`
      const joined = `Basic ${Buffer.from(`${pair}.${token}`).toString('base64')}`
      for (const headers of [{ 'x-token': token, authorization }, { authorization: joined }]) {
        const answer = await fetch(url, { headers })
        // A caller may get its own input back; no other caller may.
        const isOwn = answer.status !== 401
        texts.push(isOwn ? '' : await answer.text())
      }
    }
  return texts
}
