// Queries of the indexer's endpoint while they run, and what is kept of them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { declareIndexerMeters } from '../../src/indexer/meters.ts'
import { IndexerStage, planLimits } from '../testkit/indexer-stage.ts'
import { until } from '../testkit/until.ts'

const stage = new IndexerStage({
  poor: { creditsPerSecond: 1, burst: 1 },
  frugal: { creditsPer30Days: 4, indexer: { ...planLimits, queries: 1, queued: 0 } },
  narrow: { indexer: { ...planLimits, queries: 1, queued: 0 } },
  patient: { indexer: { ...planLimits, queries: 1, queued: 2, queueMs: 60_000 } },
  hasty: { indexer: { ...planLimits, queries: 1, queueMs: 1 } },
})

beforeAll(() => stage.open())
afterAll(() => stage.bundle.dispose())

describe('queries under way', () => {
  const wait = (as: Record<string, string>, query_id: string, signal?: AbortSignal) =>
    fetch(`${stage.url}/?query_id=${query_id}`, {
      method: 'POST',
      headers: as,
      body: 'SELECT wait',
      ...(signal === undefined ? {} : { signal }),
    })
  const seen = (id: string) =>
    until(() => stage.engine.queries.some((query) => query.id === id), id)

  it('are killed by their own customer, and by no other', async () => {
    const [mine, other] = [stage.issue(), stage.issue()]
    const waiting = wait(mine, 'to-kill')
    await seen('to-kill')
    const kill = "KILL QUERY WHERE query_id = 'to-kill' SYNC FORMAT JSONEachRow"
    expect((await stage.ask({ body: kill, as: other })).text).toBe('')
    const test = await stage.ask({ body: "KILL QUERY WHERE query_id='to-kill' TEST", as: mine })
    expect(test.text).toContain('to-kill')
    const killed = JSON.parse((await stage.ask({ body: kill, as: mine })).text)
    expect(killed).toMatchObject({ kill_status: 'waiting', query_id: 'to-kill' })
    const answer = await waiting
    expect([answer.status, (await answer.text()).slice(0, 9)]).toEqual([400, 'Code: 394'])
    expect((await stage.ask({ body: kill, as: mine })).text).toBe('')
  })

  it('keep their id to themselves', async () => {
    const leave = new AbortController()
    const waiting = wait(stage.credentials, 'one-id', leave.signal)
    await seen('one-id')
    const query = { query_id: 'one-id' }
    const name = 'QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING'
    expect(await stage.code({ body: 'SELECT 1', query })).toEqual([409, 216, name])
    expect((await stage.ask({ body: 'SELECT 1', query, as: stage.issue() })).status).toBe(200)
    leave.abort()
    await expect(waiting).rejects.toThrow()
    await until(
      async () => (await stage.ask({ body: 'SELECT 1', query })).status === 200,
      'a free id',
    )
  })

  it('are cancelled when their client leaves, waiting or streaming', async () => {
    for (const body of ['SELECT wait', 'SELECT rows 100000000 FORMAT JSONEachRow']) {
      const leave = new AbortController()
      const before = stage.engine.cancelled
      const asked = stage.engine.queries.length
      const answer = fetch(stage.url, {
        method: 'POST',
        headers: stage.credentials,
        body,
        signal: leave.signal,
      })
      answer.catch(() => {})
      await until(() => stage.engine.queries.length > asked, 'the query to run')
      if (body !== 'SELECT wait') await answer
      leave.abort()
      await until(() => stage.engine.cancelled > before, 'the query to be cancelled')
    }
    await until(() => stage.usage.at(-1)?.code === 394, 'its usage row')
  })

  it('stop when the credentials die', async () => {
    const { token, indexer, subscription } = stage.bundle.issue({ products: ['indexer'] })
    const headers = {
      'x-token': token,
      'x-clickhouse-user': indexer!.user,
      'x-clickhouse-key': indexer!.password,
    }
    const waiting = wait(headers, 'suspended')
    await seen('suspended')
    stage.bundle.store.suspend(subscription.id, { who: 'test' })
    stage.bundle.directory.refresh()
    expect((await waiting).status).toBe(400)
  })

  it('are as many as the plan allows: 202, and KILL still works', async () => {
    const as = stage.issue({ plan: 'narrow' })
    const first = wait(as, 'narrow-1')
    await seen('narrow-1')
    const refused = await stage.ask({ body: 'SELECT 1', as })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    expect(refused.text).toMatch(/^Code: 202\..*\(TOO_MANY_SIMULTANEOUS_QUERIES\)\n$/)
    const killed = await stage.ask({ body: "KILL QUERY WHERE query_id IN ('a', 'narrow-1')", as })
    expect(killed.text).toContain('narrow-1')
    await first
    expect((await stage.ask({ body: 'SELECT 1', as })).status).toBe(200)
  })

  it('wait over the number of the plan, and are served in their order', async () => {
    const as = stage.issue({ plan: 'patient' })
    const first = wait(as, 'patient-1')
    await seen('patient-1')
    const asked = stage.engine.queries.length
    const waiting = ['patient-2', 'patient-3'].map((query_id) =>
      stage.ask({ body: 'SELECT 1', query: { query_id }, as }),
    )
    await until(() => stage.meters.waiting() === 2, 'both to wait')
    const refused = await stage.ask({ body: 'SELECT 1', as })
    expect([refused.status, refused.text.slice(0, 9)]).toEqual([429, 'Code: 202'])
    expect(stage.engine.queries.length).toBe(asked)
    await stage.ask({ body: "KILL QUERY WHERE query_id = 'patient-1'", as })
    expect((await first).status).toBe(400)
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200])
    const ids = stage.engine.queries.slice(asked).map(({ id }) => id)
    expect(ids).toEqual(['patient-2', 'patient-3'])
    expect(stage.meters.waiting()).toBe(0)
  })

  it('leave the queue by KILL QUERY, with their client, and when the wait is over', async () => {
    const as = stage.issue({ plan: 'patient' })
    const first = wait(as, 'queue-1')
    await seen('queue-1')
    const asked = stage.engine.queries.length
    const gone = new AbortController()
    const left = wait(as, 'queue-2', gone.signal)
    const killed = wait(as, 'queue-3')
    await until(() => stage.meters.waiting() === 2, 'both to wait')
    gone.abort()
    await expect(left).rejects.toThrow()
    await until(() => stage.meters.waiting() === 1, 'one to leave')
    await stage.ask({ body: "KILL QUERY WHERE query_id = 'queue-3'", as })
    expect((await (await killed).text()).slice(0, 9)).toBe('Code: 394')
    const hasty = stage.issue({ plan: 'hasty' })
    const other = wait(hasty, 'hasty-1')
    await seen('hasty-1')
    expect((await stage.ask({ body: 'SELECT 1', as: hasty })).status).toBe(429)
    for (const [id, owner] of [
      ['queue-1', as],
      ['hasty-1', hasty],
    ] as const)
      await stage.ask({ body: `KILL QUERY WHERE query_id = '${id}'`, as: owner })
    await Promise.all([first, other])
    expect(stage.engine.queries.slice(asked).map(({ id }) => id)).toEqual(['hasty-1'])
  })

  it('are ten at once on the plan unlimited', async () => {
    const as = stage.issue({ plan: 'unlimited' })
    const all = Array.from({ length: 10 }, () => stage.ask({ body: 'SELECT 1', as }))
    expect((await Promise.all(all)).every(({ status }) => status === 200)).toBe(true)
  })

  it('are charged to the plan, and refused with 201 and Retry-After beyond it', async () => {
    const as = stage.issue({ plan: 'poor' })
    expect((await stage.ask({ body: 'SELECT 1', as })).status).toBe(200)
    const refused = await stage.ask({ body: 'SELECT 1', as })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    expect(refused.text).toMatch(/^Code: 201\..*\(QUOTA_EXCEEDED\)\n$/)
  })

  it('cost nothing when they are refused', async () => {
    const as = stage.issue({ plan: 'frugal' })
    const [id] = Buffer.from(as.authorization!.split(' ')[1]!, 'base64').toString().split(':')
    const first = wait(as, 'frugal-1')
    await seen('frugal-1')
    const status = async (body: string, query: Record<string, string> = {}) =>
      (await stage.ask({ body, as, query })).status
    for (let again = 0; again < 5; again++) expect(await status('SELECT 1')).toBe(429)
    expect(await status("KILL QUERY WHERE query_id = 'frugal-1'")).toBe(200)
    await first
    for (let again = 0; again < 5; again++) expect(await status('SELECT refuse')).toBe(429)
    expect(await status('SELECT 1', { role: 'any' })).toBe(400)
    expect(await status('SELECT 1')).toBe(200)
    // One that fails is charged.
    expect(await status('SELECT fail 60')).toBe(400)
    expect((await stage.ask({ body: 'SELECT 1', as })).text).toMatch(/^Code: 201\./)
    await stage.bundle.quota.flush()
    expect(stage.bundle.store.usage(id!)).toMatchObject({ window: { credits: 4 } })
    expect(stage.usage.filter(({ subscription }) => subscription === id)).toHaveLength(4)
  })

  it('are bounded per address over all subscriptions', async () => {
    const endpoint = await stage.bundle.openIndexer({
      engine: stage.engine,
      meters: declareIndexerMeters(new Meters()),
      section: { inFlightPerAddress: 1 },
    })
    const leave = new AbortController()
    const ask = (headers: Record<string, string>) =>
      fetch(`http://127.0.0.1:${endpoint.port}/?query=SELECT%20wait&query_id=bounded`, {
        headers,
        signal: leave.signal,
      })
    const first = ask(stage.credentials)
    first.catch(() => {})
    await seen('bounded')
    const refused = await ask(stage.issue())
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    expect(await refused.text()).toMatch(/^Code: 202\./)
    leave.abort()
    await endpoint.stop()
  })

  it('go at the pace of their reader', async () => {
    const before = stage.engine.rowsGiven
    const answer = await fetch(stage.url, {
      method: 'POST',
      headers: stage.credentials,
      body: 'SELECT rows 20000000 FORMAT JSONEachRow',
    })
    const reader = answer.body!.getReader()
    await reader.read()
    let given = -1
    // The source stops once the buffers on the way are full.
    await until(async () => {
      const now = stage.engine.rowsGiven
      const isStill = now === given
      given = now
      await new Promise((resolve) => setTimeout(resolve, 300))
      return isStill
    }, 'the source to stop')
    expect(stage.engine.rowsGiven - before).toBeLessThan(2_000_000)
    await reader.cancel()
  })
})

describe('what is kept of queries', () => {
  it('is a row of usage for each, well or not', async () => {
    const query = { query_id: 'for-usage' }
    await stage.ask({ body: 'SELECT rows 3', query })
    expect(stage.usage.at(-1)).toMatchObject({ queryId: 'for-usage', rows: 3, code: 0 })
    expect(stage.usage.at(-1)!.bytes).toBeGreaterThan(0)
    await stage.ask({ body: 'SELECT nothing FROM', query: { ...query, extremes: '1' } })
    expect(stage.usage.at(-1)).toMatchObject({ queryId: 'for-usage', rows: 0, code: 48 })
  })

  it('is never a token or the password: both are refused as query_id with 400', async () => {
    const token = stage.credentials['x-token']!
    const pair = Buffer.from(stage.credentials.authorization!.split(' ')[1]!, 'base64').toString()
    const password = pair.split(':')[1]!
    const before = stage.usage.length
    const asked = stage.engine.queries.length
    stage.logged.length = 0
    for (const secret of [token, `job-${token}`, password, `${password}.1`])
      for (const body of ['SELECT slow 2', 'DROP TABLE blocks', 'SELEC']) {
        const query = { query_id: secret }
        // Also where the statement is in the URL and is refused before its body is read.
        for (const asking of [
          { body, query },
          { body: ' ', query: { ...query, query: body } },
        ]) {
          const { status, headers, text } = await stage.ask(asking)
          expect([status, text]).toEqual([400, expect.stringMatching(/^Code: 36\..*query_id/)])
          expect(JSON.stringify([...headers]) + text).not.toContain(secret)
        }
      }
    expect(stage.usage).toHaveLength(before)
    expect(stage.engine.queries).toHaveLength(asked)
    expect(stage.logged).toEqual([])
    const fine = await stage.ask({ body: 'SELECT 1', query: { query_id: 'slu_report-7' } })
    expect(fine.status).toBe(200)
  })

  it('is a line of log for a slow one, without literals, ids and credentials', async () => {
    const secret = stage.credentials['x-token']!
    stage.logged.length = 0
    const query = { query_id: 'an-id-of-ours' }
    const body = `SELECT slow 2 /* ${secret} */ SETTINGS log_comment = '${secret}'`
    // At most one line a second, which another slow query may have had.
    await until(async () => {
      await stage.ask({ body, query })
      return stage.logged.some((fields) => 'query' in fields)
    }, 'the line')
    const line = stage.logged.find((fields) => 'query' in fields)!
    expect(line).toMatchObject({
      rows: 2,
      code: 0,
      query: 'SELECT slow ? SETTINGS log_comment = ?',
    })
    expect(JSON.stringify(stage.logged)).not.toContain(secret)
    expect(JSON.stringify(stage.logged)).not.toContain('an-id-of-ours')
  })

  it('is counted by outcome', async () => {
    const { body } = await stage.bundle.meters.render('text')
    expect(body).toMatch(/sluice_index_queries_total\{outcome="OK"\} [1-9]/)
    expect(body).toMatch(/sluice_index_queries_total\{outcome="QUERY_WAS_CANCELLED"\} [1-9]/)
    expect(body).toMatch(/sluice_index_queries_stopped_total\{way="killed"\} [1-9]/)
    expect(body).toMatch(/sluice_index_queries_stopped_total\{way="client_gone"\} [1-9]/)
    expect(body).toMatch(/sluice_index_queries_stopped_total\{way="access_lost"\} 1/)
    expect(body).toMatch(/sluice_index_queries_running 0/)
    expect(body).toMatch(/sluice_quota_refused_total\{door="indexer"\} 10/)
  })
})
