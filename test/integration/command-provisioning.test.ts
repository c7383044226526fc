// The verbs that provision, run as an operator runs them: the command, a data folder.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import type { Subscription } from '../../src/customers/subscriptions/subscription.ts'
import { userName } from '../../src/operator/config/load.ts'
import { type Ran, runCommand } from '../testkit/command.ts'
import { runHere } from '../testkit/run-here.ts'
import { until } from '../testkit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-command-'))
const data = join(folder, 'data')
/** Everything that was printed, for the last test. */
const printed: Ran[] = []
const secrets: string[] = []

type Runner = (...words: string[]) => Promise<Ran>

/** The compiled command in a process of its own. */
async function runAlone(...words: string[]): Promise<Ran> {
  const ran = await runCommand([...words, '--data', data])
  printed.push(ran)
  return ran
}

/** The same in this process: for what does not depend on another one. */
async function run(...words: string[]): Promise<Ran> {
  const ran = await runHere(...words, '--data', data)
  printed.push(ran)
  return ran
}

async function json<T = { subscription: Subscription }>(...words: string[]): Promise<T> {
  return jsonOf<T>(run, ...words)
}

async function jsonOf<T>(runner: Runner, ...words: string[]): Promise<T> {
  const ran = await runner(...words, '--output', 'json')
  expect(ran.stderr).toBe('')
  expect(ran.code).toBe(0)
  return ran.json() as T
}

interface Issued {
  subscription: Subscription
  token: string
  indexer?: { user: string; password: string }
}

function keep(issued: { token?: string; indexer?: { password: string } }): void {
  if (issued.token !== undefined) secrets.push(issued.token)
  if (issued.indexer !== undefined) secrets.push(issued.indexer.password)
}

beforeAll(async () => {
  const before = await runAlone('subscription', 'list')
  expect(before.code).toBe(3)
  expect(before.stderr).toContain('sluice subscription add')
  const products = 'bundle,indexer,shredstream'
  const words = ['acme', '--product', products, '--cidr', '10.0.0.0/8', '--reason', 'order 7']
  const issued = await jsonOf<Issued>(runAlone, 'subscription', 'add', ...words)
  keep(issued)
  expect(Object.keys(issued)).toEqual(['subscription', 'token', 'indexer'])
  expect(Object.keys(issued.subscription).sort()).toEqual(
    [
      ...['id', 'label', 'products', 'plan', 'state', 'cidrs', 'tokenLast4', 'destination'],
      ...['upstream', 'note', 'createdAt', 'changedAt'],
    ].sort(),
  )
  expect(issued.token).toMatch(/^slu_[0-9A-Za-z]{38}$/)
  expect(issued.indexer?.user).toBe(issued.subscription.id)
  expect(issued.subscription).toMatchObject({ label: 'acme', plan: 'standard', state: 'active' })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('subscription', () => {
  test('add shows its secrets once as a table, too', async () => {
    const ran = await run('subscription', 'add', 'beta', '--product', 'bundle')
    const token = /^TOKEN=(slu_\w{38})$/m.exec(ran.stdout)?.[1] ?? ''
    keep({ token })
    expect(ran.stdout.split(token)).toHaveLength(2)
    expect(ran.stdout).not.toContain('INDEXER_')
    expect(ran.stderr).toBe('')
    const shown = await run('subscription', 'show', 'beta')
    expect(shown.stdout).toContain(`...${token.slice(-4)}`)
    expect(shown.stdout).toMatch(/^id: +sub_\w{8}$/m)
  })

  test('labels are offered to completion', async () => {
    expect((await run('completion', 'labels')).stdout.split('\n')).toContain('acme')
  })

  test('list and show find it by id and by label', async () => {
    const { subscriptions } = await json<{ subscriptions: Subscription[] }>('subscription', 'list')
    const acme = subscriptions.find((one) => one.label === 'acme')
    expect(acme?.cidrs).toEqual(['10.0.0.0/8'])
    const shown = await json<{ credentials: object }>('subscription', 'show', acme?.id ?? '')
    expect(shown).toEqual({
      subscription: acme,
      credentials: {
        tokenLast4: acme?.tokenLast4,
        graceUntil: null,
        hasIndexerPassword: true,
      },
    })
    const table = await run('subscription', 'list', '--state', 'active')
    expect(table.stdout).toMatch(/^ID +LABEL +STATE +PRODUCTS/)
    expect(table.stdout).toContain('acme')
    const none = await json('subscription', 'list', '--state', 'ended')
    expect(none).toEqual({ subscriptions: [] })
  })

  test('set changes what is given and nothing else', async () => {
    const { subscription } = await json('subscription', 'set', 'acme', '--plan', 'unlimited')
    expect(subscription).toMatchObject({ plan: 'unlimited', cidrs: ['10.0.0.0/8'] })
    const open = await json('subscription', 'set', 'acme', '--cidr', '')
    expect(open.subscription.cidrs).toEqual([])
    const named = await json('subscription', 'set', 'acme', '--label', 'acme2')
    expect(named.subscription.id).toBe(subscription.id)
    await json('subscription', 'set', subscription.id, '--label', 'acme')
    const gained = await json<Issued>('subscription', 'set', 'beta', '--product', 'bundle,indexer')
    keep(gained)
    expect(gained.indexer?.password).toMatch(/^\w{32}$/)
  })

  test('a change prints what happened in one sentence, then the record', async () => {
    const said = async (...words: string[]) => {
      const ran = await run(...words, '--yes')
      const token = /^TOKEN=(\w+)$/m.exec(ran.stdout)?.[1]
      if (token !== undefined) keep({ token })
      return ran.stdout.split('\n\n')
    }
    const [added, record] = await said('subscription', 'add', 'zeta', '--product', 'shredstream')
    expect(added).toBe('zeta was added; its token works from now on.')
    expect(record).toMatch(/^id: +sub_/)
    const set = await said('destination', 'set', 'zeta', '127.0.0.1:29999')
    expect(set[0]).toMatch(/^127\.0\.0\.1:29999 was proposed for zeta/)
    expect(set[1]).toMatch(/^subscription: /)
    expect(await said('destination', 'clear', 'zeta')).toEqual([
      'The destination of zeta was removed: no shreds are sent.\n',
    ])
    expect((await said('token', 'rotate', 'zeta'))[0]).toMatch(/^zeta has a new token; the old one/)
    expect((await said('subscription', 'suspend', 'zeta'))[0]).toMatch(/^zeta is suspended: /)
    expect((await said('subscription', 'end', 'zeta'))[0]).toMatch(/^zeta has ended: /)
  })

  test('suspend, resume and end move its state, and a wrong move is refused with 1', async () => {
    keep(await json<Issued>('subscription', 'add', 'gamma', '--product', 'bundle'))
    const reason = ['--reason', 'unpaid', '--yes']
    const suspended = await json('subscription', 'suspend', 'gamma', ...reason)
    expect(suspended.subscription.state).toBe('suspended')
    expect((await run('subscription', 'suspend', 'gamma')).code).toBe(1)
    expect((await json('subscription', 'resume', 'gamma')).subscription.state).toBe('active')
    expect((await json('subscription', 'end', 'gamma', '--yes')).subscription.state).toBe('ended')
    const again = await run('subscription', 'resume', 'gamma')
    expect(again.code).toBe(1)
    expect(again.stderr).toContain('has ended')
  })
})

describe('indexer', () => {
  test('enroll shows a credential once; revoke ends it; both are in the audit table', async () => {
    const ran = await run('indexer', 'enroll', '--name', 'north', '--reason', 'index')
    const token = /^TOKEN=(slu_\w{38})$/m.exec(ran.stdout)?.[1] ?? ''
    keep({ token })
    expect([ran.code, ran.stdout.split(token).length]).toEqual([0, 2])
    const { indexers } = await json<{ indexers: object[] }>('indexer', 'list')
    expect(indexers).toMatchObject([{ name: 'north', state: 'active', cidrs: [] }])
    expect((await run('indexer', 'list')).stdout).toMatch(/^INDEXER +STATE +CREDENTIAL/)
    expect((await run('subscription', 'list')).stdout).not.toContain('north')
    expect((await run('indexer', 'enroll', '--name', 'north')).stderr).toContain('belongs to sub_')
    expect((await run('indexer', 'enroll')).code).toBe(2)
    expect((await run('indexer', 'revoke', 'north')).stderr).toContain('add --yes')
    const done = await run('indexer', 'revoke', 'north', '--yes', '--reason', 'moved')
    expect(done.stdout).toBe('The credential of north no longer works.\n')
    expect((await run('indexer', 'revoke', 'north', '--yes')).code).toBe(3)
    expect((await run('indexer', 'revoke', 'acme', '--yes')).code).toBe(3)
    const { entries } = await json<{ entries: { what: string }[] }>('audit', 'show')
    const own = entries.filter(({ what }) => /^indexer\.(enroll|revoke)$/.test(what))
    expect(own).toMatchObject([{ reason: 'index' }, { reason: 'moved' }])
  })
})

describe('refusals', () => {
  test.each([
    ['no product', 2, ['subscription', 'add', 'x'], '--product is missing'],
    ['no label', 2, ['subscription', 'add'], '<label> is missing'],
    ['nothing to set', 2, ['subscription', 'set', 'acme'], 'nothing to change'],
    ['a bad grace', 2, ['token', 'rotate', 'acme', '--grace', 'soon'], '--grace must be a time'],
    ['a bad kind', 2, ['note', 'add', 'acme', 't', '--kind', 'joke'], 'must be one of'],
    ['a bad limit', 2, ['audit', 'show', '--limit', '-1'], '--limit must be'],
    ['a bad state', 2, ['subscription', 'list', '--state', 'odd'], 'must be one of'],
    ['a taken label', 1, ['subscription', 'add', 'acme', '--product', 'bundle'], 'choose another'],
    ['a bad label', 1, ['subscription', 'add', 'a b', '--product', 'bundle'], 'a label is'],
    [
      'an unknown product',
      1,
      ['subscription', 'add', 'x', '--product', 'milk'],
      'the products are bundle',
    ],
    [
      'a coming product',
      1,
      ['subscription', 'add', 'x', '--product', 'shredstream-decoded'],
      'soon',
    ],
    ['an open product', 1, ['subscription', 'add', 'x', '--product', 'tpu'], 'open access'],
    [
      'an unknown plan',
      1,
      ['subscription', 'set', 'acme', '--plan', 'gold'],
      'its plans are standard',
    ],
    ['a bad CIDR', 1, ['subscription', 'set', 'acme', '--cidr', '10.0.0.1/8'], 'write a CIDR'],
    [
      'a bad destination',
      1,
      ['destination', 'set', 'acme', 'host:1'],
      'host names are not accepted',
    ],
    ['too long a grace', 1, ['token', 'rotate', 'acme', '--grace', '31d'], 'at most 30d'],
    ['an unknown one', 3, ['subscription', 'show', 'nobody'], 'subscription list shows them'],
    ['an unknown one to change', 3, ['token', 'rotate', 'nobody'], 'no subscription'],
    ['an unknown one to note', 3, ['note', 'add', 'nobody', 'hi'], 'no subscription'],
    ['an unknown one to count', 3, ['usage', 'nobody'], 'no subscription'],
    ['an unknown one to audit', 3, ['audit', 'show', 'nobody'], 'no subscription'],
    ['a missing destination', 3, ['destination', 'confirm', 'beta'], 'has no destination'],
  ])('%s: exit code %i, stdout empty, and a sentence', async (_, code, words, sentence) => {
    const ran = await run(...words)
    expect(ran.stderr).toContain(sentence)
    expect(ran.stdout).toBe('')
    expect(ran.code).toBe(code)
  })

  test('are JSON on stderr with --output json', async () => {
    const ran = await run('subscription', 'show', 'nobody', '--output=json')
    expect(JSON.parse(ran.stderr)).toMatchObject({ error: { code: 'no-subscription' } })
    const misused = await run('subscription', 'shw', '--output=json')
    expect(JSON.parse(misused.stderr)).toMatchObject({ error: { code: 'usage' } })
    expect(misused.code).toBe(2)
  })

  test('never echo a token that was given as the wrong argument', async () => {
    const ran = await run('subscription', 'show', secrets[0] ?? '')
    expect(ran.code).toBe(3)
    expect(ran.stderr).not.toContain(secrets[0]?.slice(4))
    const noted = await run('note', 'add', 'acme', `the token is ${secrets[0]}`)
    expect(noted.code).toBe(1)
    expect(noted.stderr).not.toContain(secrets[0]?.slice(4))
  })
})

describe('credentials', () => {
  test('token rotate gives a new one, with and without grace', async () => {
    const first = await json<Issued & { graceUntil: string | null }>(
      'token',
      'rotate',
      'acme',
      '--yes',
    )
    keep(first)
    expect(first.graceUntil).toBe(null)
    expect(first.subscription.tokenLast4).toBe(first.token.slice(-4))
    const words = ['acme', '--grace', '1h30m', '--reason', 'moving house']
    const second = await json<Issued & { graceUntil: string }>('token', 'rotate', ...words)
    keep(second)
    const aheadMs = Date.parse(second.graceUntil) - Date.now()
    expect(aheadMs).toBeGreaterThan(80 * 60_000)
    expect(aheadMs).toBeLessThanOrEqual(90 * 60_000)
    const shown = await run('subscription', 'show', 'acme')
    expect(shown.stdout).toContain(second.graceUntil)
    const third = await run('token', 'rotate', 'acme', '--grace', '1h')
    keep({ token: /^TOKEN=(\w+)$/m.exec(third.stdout)![1]! })
    expect(third.stdout).toMatch(/the old one works until .* The one before that no longer works/)
  })

  test.each([
    ['token', 'rotate'],
    ['indexer', 'rotate'],
    ['subscription', 'end'],
    ['destination', 'clear'],
  ])('%s %s is refused without a terminal unless --yes is given', async (...verb) => {
    const before = await run('subscription', 'show', 'acme')
    const refused = await run(...verb, 'acme')
    expect([refused.code, refused.stdout]).toEqual([1, ''])
    expect(refused.stderr).toContain('nothing was changed: this cannot be undone')
    expect(refused.stderr).toContain('add --yes')
    expect((await run('subscription', 'show', 'acme')).stdout).toBe(before.stdout)
  })

  test('indexer rotate gives a new password to subscriptions with the indexer', async () => {
    const rotated = await json<Issued>('indexer', 'rotate', 'acme', '--yes')
    keep(rotated)
    expect(Object.keys(rotated)).toEqual(['subscription', 'indexer'])
    keep(await json<Issued>('subscription', 'add', 'delta', '--product', 'bundle'))
    expect((await run('indexer', 'rotate', 'delta', '--yes')).code).toBe(1)
  })
})

describe('destination', () => {
  test('walks from pending over active and paused to none', async () => {
    type Shown = { destination: { address: string; state: string } | null }
    const at = (words: string[]) => json<Shown>('destination', ...words)
    const set = await at(['set', 'acme', '198.18.0.7:30000', '--reason', 'asked by mail'])
    expect(set.destination).toMatchObject({ address: '198.18.0.7:30000', state: 'pending' })
    expect((await at(['confirm', 'acme'])).destination?.state).toBe('active')
    expect((await at(['pause', 'acme'])).destination?.state).toBe('paused')
    expect((await at(['resume', 'acme'])).destination?.state).toBe('active')
    expect((await run('destination', 'show', 'acme')).stdout).toContain('198.18.0.7:30000')
    expect((await at(['clear', 'acme', '--yes'])).destination).toBe(null)
    const none = await run('destination', 'show', 'acme')
    expect(none.stdout).toContain('sluice destination set acme')
  })
})

describe('consumer', () => {
  test('list shows where they are, reset forgets one or all', async () => {
    const store = openStore(join(data, 'registry'), { clock: systemClock })
    const { id } = store.find('acme')!
    const position = JSON.stringify({ v: 1, commitment: 1, floor: 4711, slots: [], parts: [] })
    for (const name of ['orders', 'trades', 'new']) {
      const { term } = (await store.consumers.open(id, name)) as { term: number }
      if (name !== 'new') await store.consumers.commit([{ id, name, term, position }])
    }
    await store.close()
    const listed = await json<{ consumers: object[] }>('consumer', 'list', 'acme')
    expect(listed.consumers).toMatchObject([
      { name: 'new', slot: null, commitment: null },
      { name: 'orders', slot: 4711, commitment: 'confirmed' },
      { name: 'trades', slot: 4711, commitment: 'confirmed' },
    ])
    expect((await run('consumer', 'list', 'acme', 'orders')).stdout).toMatch(/^orders +4711/m)
    expect((await run('consumer', 'reset', 'acme', 'orders')).code).toBe(1)
    const one = await json<object>('consumer', 'reset', 'acme', 'orders', '--yes')
    expect(one).toMatchObject({ label: 'acme', reset: 1 })
    expect((await run('consumer', 'reset', 'acme', 'orders', '--yes')).code).toBe(3)
    expect(await json<object>('consumer', 'reset', 'acme', '--yes')).toMatchObject({ reset: 2 })
    expect((await run('consumer', 'list', 'acme')).stdout).toBe('No consumers.\n')
    expect((await run('consumer', 'list', 'nobody')).code).toBe(3)
  })
})

describe('records', () => {
  test('note add keeps the note with its kind', async () => {
    const words = ['acme', 'two weeks back', '--kind', 'refund']
    const { subscription } = await json('note', 'add', ...words)
    expect(subscription.note).toBe('two weeks back')
    type Entries = { entries: { what: string; who: string; reason: string }[] }
    const { entries } = await json<Entries>('audit', 'show', 'acme', '--limit', '1')
    expect(entries).toEqual([
      expect.objectContaining({ what: 'note.refund', who: userName(), reason: 'two weeks back' }),
    ])
  })

  test('audit show lists and audit verify approves', async () => {
    const table = await run('audit', 'show')
    expect(table.stdout).toMatch(/^SEQ +AT +WHO +WHAT/)
    expect(table.stdout).toContain('order 7')
    const verified = await json<{ ok: boolean; entries: number }>('audit', 'verify')
    expect(verified.ok).toBe(true)
    expect(verified.entries).toBeGreaterThan(10)
    expect((await run('audit', 'verify')).stdout).toContain('is intact')
  })

  test('usage shows one and all', async () => {
    const one = await json<object>('usage', 'beta')
    expect(one).toMatchObject({
      label: 'beta',
      limit: 50_000_000,
      window: { credits: 0 },
      days: [],
    })
    expect(await json<object>('usage', 'acme')).toMatchObject({ limit: null })
    const all = await json<{ usage: object[] }>('usage')
    expect(all.usage.length).toBeGreaterThanOrEqual(3)
    expect((await run('usage')).stdout).toMatch(/^ID +LABEL +PLAN +CREDITS/)
    expect((await run('usage', 'beta')).stdout).toContain('0 of 50000000')
  })
})

describe('beside a running server', () => {
  const month = new Date().toISOString().slice(0, 7)
  let store: Store
  beforeAll(() => {
    store = openStore(join(data, 'registry'), { clock: systemClock })
  })
  afterAll(() => store.close())

  test('changes of the command are seen by a process that has the registry open', async () => {
    const before = store.version()
    const words = ['subscription', 'add', 'live', '--product', 'bundle']
    const issued = await jsonOf<Issued>(runAlone, ...words)
    keep(issued)
    await until(() => store.version() > before, 'the change to be seen')
    expect(store.find('live')?.id).toBe(issued.subscription.id)
    await store.addUsage([
      {
        id: issued.subscription.id,
        window: 0,
        credits: 7,
        calls: 2,
        refused: 1,
        notifications: 0,
        bytes: 9,
      },
    ])
    const usage = await jsonOf<object>(runAlone, 'usage', 'live')
    expect(usage).toMatchObject({ window: { credits: 7 } })
  })

  test('the usage of a month is the sum of its days', async () => {
    const { id } = store.find('live')!
    const used = { id, window: 0, credits: 5, calls: 1, refused: 0, notifications: 3, bytes: 1 }
    await store.addUsage([used])
    const days = store.usage(id)!.days.filter(({ day }) => day.startsWith(month))
    const credits = days.reduce((sum, day) => sum + day.credits, 0)
    expect(credits).toBeGreaterThanOrEqual(5)
    const all = await json<{ usage: { id: string; credits: number }[] }>('usage', '--month', month)
    expect(all.usage.find((one) => one.id === id)).toMatchObject({ label: 'live', credits })
    expect(all.usage.find(({ credits }) => credits === 0)).toBeDefined()
    const { stdout } = await run('usage', 'live', '--month', month, '--output', 'csv')
    const [head, row, ...rest] = stdout.trimEnd().split('\n')
    expect(head).toBe('id,label,plan,state,credits,calls,refused,notifications,bytes')
    expect(row).toMatch(new RegExp(`^${id},live,standard,active,${credits},`))
    expect(rest).toEqual([])
  })

  test.each([
    ['not a month', 2, ['--month', '2026-13'], 'a month such as'],
    ['one to come', 2, ['--month', '9999-01'], 'has not begun'],
    ['one that is not kept', 1, ['--month', '2020-01'], 'not whole any more'],
    ['no month', 2, ['--output', 'csv'], 'needs --month'],
    ['an unknown subscription', 3, ['nobody', '--month', month], 'no subscription'],
  ])('a month is refused: %s', async (_, code, words, text) => {
    const refused = await run('usage', ...words)
    expect({ code: refused.code }).toEqual({ code })
    expect(refused.stderr).toContain(text)
  })

  test('many commands at once lose nothing', async () => {
    const labels = ['p1', 'p2', 'p3', 'p4', 'p5']
    const made = await Promise.all(
      labels.map((label) =>
        jsonOf<Issued>(runAlone, 'subscription', 'add', label, '--product', 'bundle'),
      ),
    )
    for (const issued of made) keep(issued)
    const found = store.list().map((one) => one.label)
    expect(found).toEqual(expect.arrayContaining(labels))
    expect(store.verifyAudit().ok).toBe(true)
  })
})

describe('secrets', () => {
  test('each was printed once, to stdout, and is in no file', () => {
    expect(secrets.length).toBeGreaterThan(10)
    const files = readdirSync(data, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    for (const secret of secrets) {
      const times = printed.reduce((sum, ran) => sum + ran.stdout.split(secret).length - 1, 0)
      expect(times).toBe(1)
      expect(printed.some((ran) => ran.stderr.includes(secret))).toBe(false)
      expect(files.some((text) => text.includes(secret))).toBe(false)
    }
  })
})
