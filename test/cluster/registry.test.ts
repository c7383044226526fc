// The shared registry: the same outcomes as the embedded one, one chain for all operators, and no
// way back to an older state.
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { Fault, type Outcome } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { RegistryFollower } from '../../src/customers/cluster/shared-registry.ts'
import { SharedUsage } from '../../src/customers/cluster/usage.ts'
import { nextEntry, recordDigest } from '../../src/customers/subscriptions/audit.ts'
import { openStore } from '../../src/customers/subscriptions/store.ts'
import type { Subscription } from '../../src/customers/subscriptions/subscription.ts'
import type { Verbs } from '../../src/customers/subscriptions/verbs.ts'
import { sluice } from '../testkit/server.ts'
import { isSlice } from '../testkit/slice.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { hangMs, until, untilWithin } from '../testkit/until.ts'
import { isFull } from './full.ts'
import { by, type Gateway, known, newFolder, openGateway, removeFolders } from './gateway-stage.ts'
import { hasPostgres, type Postgres, sqlOn, startPostgres } from './postgres.ts'
import { waitForAbsent, waitForNobody } from './standby.ts'

describe.skipIf(!hasPostgres())('the shared registry', () => {
  let postgres: Postgres
  const gateways: Gateway[] = []
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(async () => {
    await Promise.all(gateways.map((gateway) => gateway.stop()))
    postgres.dispose()
    removeFolders()
  })

  /** Gateways on a new, seeded database. */
  async function openCluster(count: number, url?: string) {
    const database = url ?? (await postgres.database())
    const all = Array.from({ length: count }, (_, index) => openGateway(database, `g${index}`))
    gateways.push(...all)
    if (url === undefined) await all[0]!.shared.seed()
    for (const gateway of all) await gateway.start()
    return { url: database, all: all as [Gateway, ...Gateway[]] }
  }
  const isEqual = (all: readonly Gateway[]) =>
    all.every(({ store }) => store.head().hash === all[0]!.store.head().hash)

  it('has the same outcome as the embedded registry for every change', async () => {
    const { all } = await openCluster(2)
    const embedded = openStore(`${newFolder()}/registry`, { clock: systemClock, known })
    for (let seed = 1; seed <= (isFull ? 1_000 : isSlice ? 8 : 25); seed++) {
      const random = randomOf(seed)
      for (let step = 0; step < 12; step++) {
        const change = randomChange(random, `s${seed}`)
        const one = shape(change(embedded) as Outcome<unknown>)
        const gateway = all[step % all.length]!
        expect(shape(await change(gateway.shared.verbs)), `seed ${seed} step ${step}`).toEqual(one)
      }
    }
    await until(() => isEqual(all), 'the gateways to be equal')
    for (const { store } of all) {
      expect(store.verifyAudit()).toMatchObject({ ok: true, entries: embedded.head().seq })
      expect(facts(store.list())).toEqual(facts(embedded.list()))
    }
    await embedded.close()
  })

  it('follows a change elsewhere, also when notifications are lost', async () => {
    const { url, all } = await openCluster(2)
    const cut = await TcpCut.open(`127.0.0.1:${postgres.port}`)
    const through = openGateway(url.replace(/:\d+\//, `:${cut.target.split(':')[1]}/`), 'through')
    gateways.push(through)
    await through.start()
    const added = await all[0].shared.verbs.add({ label: 'a', products: ['bundle'] }, by)
    expect(added.ok).toBe(true)
    await until(() => through.store.find('a')?.state === 'active', 'the new one')
    // Notifications are lost and nothing else: the poll finds the change.
    await through.cluster.reading.query('UNLISTEN *')
    await all[1]!.shared.verbs.addNote('a', { kind: 'other', text: 'polled' }, by)
    await until(() => through.store.find('a')?.note === 'polled', 'the polled change')
    // The connection is half-open: no notification and no answer comes through it.
    cut.blackHole()
    await all[1]!.shared.verbs.suspend('a', by)
    // Twice the second of the contract.
    await untilWithin(2_000, () => through.store.find('a')?.state === 'suspended', 'the change')
    cut.close()
  })

  it('loses no acknowledged change of two operators when PostgreSQL is killed', async () => {
    const { all, url } = await openCluster(2)
    const made: string[] = []
    const count = isFull ? 250 : 25
    const operate = async (gateway: Gateway, name: string) => {
      for (let index = 0; index < count; index++) {
        // Every second label is fought for by both operators.
        const label = index % 2 === 0 ? `${name}-${index}` : `both-${index}`
        const added = await gateway.shared.verbs.add({ label, products: ['bundle'] }, by)
        if (added.ok) made.push(added.value.subscription.id)
        else if (added.refusal.kind === 'unavailable') await gateway.cluster.writing.ready(hangMs)
        else expect(added.refusal.code).toBe('label-taken')
      }
    }
    const both = Promise.all([operate(all[0], 'one'), operate(all[1]!, 'two')])
    await until(() => made.length > count / 3, 'some changes')
    await postgres.kill()
    postgres.start()
    await both
    const [head] = await sqlOn<{ seq: string }>(url, 'SELECT seq FROM head')
    await until(() => all.every(({ store }) => store.head().seq === Number(head!.seq)), 'all')
    for (const { store } of all) {
      expect(store.verifyAudit().ok).toBe(true)
      const ids = store.list().map(({ id }) => id)
      for (const id of made) expect(ids).toContain(id)
      const labels = store.list().map(({ label }) => label)
      expect(new Set(labels).size).toBe(labels.length)
    }
  })

  it('waits for the outcome of a commit whose answer was lost', async () => {
    const { all, url } = await openCluster(1)
    const { verbs } = all[0].shared
    await verbs.add({ label: 'slow', products: ['bundle'] }, by)
    onTestFinished(() => waitForNobody(postgres))
    await waitForAbsent(postgres)
    const rotating = verbs.rotate('slow', { graceMs: 0 }, by)
    // The connection that asks for the outcome waits for the commit, which nobody else can see.
    const waits = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`
    await until(async () => (await sqlOn(url, waits)).length > 0, 'the question')
    await waitForNobody(postgres)
    const rotated = await rotating
    if (!rotated.ok) throw new Error(rotated.refusal.message)
    expect(all[0].store.find('slow')?.tokenLast4).toBe(rotated.value.token.slice(-4))
  })

  it('shows the new token when nobody can know whether it is valid', async () => {
    const { all, url } = await openCluster(1)
    await all[0].shared.verbs.add({ label: 'doubt', products: ['bundle'] }, by)
    const data = newFolder()
    process.env.SLUICE_CLUSTER__URL = url
    onTestFinished(() => {
      delete process.env.SLUICE_CLUSTER__URL
    })
    const command = (...args: string[]) => sluice(data, ...args, '--json')
    onTestFinished(() => waitForNobody(postgres))
    await waitForAbsent(postgres)
    const rotated = await command('token', 'rotate', 'doubt', '--yes')
    await waitForNobody(postgres)
    expect(rotated.code).toBe(1)
    expect(JSON.parse(rotated.stderr)).toMatchObject({ error: { code: 'outcome-unknown' } })
    expect(rotated.stderr).toContain('sluice subscription show')
    const { outcome, token } = JSON.parse(rotated.stdout) as { outcome: string; token: string }
    expect(outcome).toBe('unknown')
    expect(rotated.stderr).not.toContain(token)
    // The commit that waited for a standby is made: the token is the one that was shown.
    const last4 = async () => {
      const { stdout } = await command('subscription', 'show', 'doubt')
      return (JSON.parse(stdout) as { subscription: Subscription }).subscription.tokenLast4
    }
    await until(async () => (await last4()) === token.slice(-4), 'the new token')
  })

  it('lets a gateway go on from its copy when the connection ends while it joins', async () => {
    const folder = newFolder()
    const url = await postgres.database()
    const first = openGateway(url, 'g', { folder })
    await first.shared.seed()
    await first.start()
    await first.stop()
    const away = new Fault('cluster', 'PostgreSQL is unavailable: cut', { retryable: true })
    for (const [options, isKnown] of [[{ folder }, true] as const, [{}, false] as const]) {
      const gateway = openGateway(url, 'g', options)
      gateways.push(gateway)
      await gateway.cluster.reading.ready(hangMs)
      gateway.cluster.reading.poll = () => Promise.reject(away)
      const joined = gateway.shared.join()
      if (isKnown) await joined
      else await expect(joined).rejects.toThrow('does not answer')
    }
  })

  it('adds the changes again that a database restored from an older copy lacks', async () => {
    const { all, url } = await openCluster(2)
    const added = await all[0].shared.verbs.add({ label: 'leaked', products: ['bundle'] }, by)
    expect(added.ok).toBe(true)
    await until(() => isEqual(all), 'both')
    const copy = postgres.copy()
    await until(async () => (await all[0].shared.verbs.end('leaked', by)).ok, 'the end')
    const hasEnd = ({ store }: Gateway) => store.find('leaked')?.state === 'ended'
    await until(() => all.every(hasEnd), 'both')
    const newest = all[0].store.head()
    postgres.restore(copy)
    await until(async () => {
      const [head] = await sqlOn<{ hash: string }>(url, 'SELECT hash FROM head')
      return head?.hash === newest.hash
    }, 'the database to be healed')
    expect(all.map(({ store }) => store.find('leaked')?.state)).toEqual(['ended', 'ended'])
    // A gateway that joins now, with an empty folder, does not get the old token either.
    const { all: late } = await openCluster(1, url)
    expect(late[0].store.find('leaked')?.state).toBe('ended')
    expect(late[0].store.verifyAudit()).toMatchObject({ ok: true })
  })

  it('keeps its state and reports a fork, and makes no change on it', async () => {
    const { all, url } = await openCluster(1)
    await all[0].shared.verbs.add({ label: 'kept', products: ['bundle'] }, by)
    await sqlOn(
      url,
      `UPDATE audit SET entry = (entry::jsonb || '{"hash":"${'f'.repeat(64)}"}')::json;
       UPDATE head SET hash = '${'f'.repeat(64)}'`,
    )
    await until(() => all[0].shared.follower.state === 'forked', 'the fork')
    expect(all[0].store.find('kept')?.state).toBe('active')
    expect(all[0].store.verifyAudit().ok).toBe(true)
    const refused = await all[0].shared.verbs.end('kept', by)
    expect(refused).toMatchObject({ ok: false, refusal: { code: 'cluster-fork' } })
  })

  it('follows on behind a rightly hashed change whose record is none, and refuses to change it', async () => {
    const { all, url } = await openCluster(2)
    await all[0].shared.verbs.add({ label: 'bad', products: ['bundle'] }, by)
    await until(() => isEqual(all) && all[1]!.store.find('bad') !== null, 'both')
    const { id } = all[0].store.find('bad')!
    for (const record of [{}, { subscription: { id } }, null]) {
      const head = all[0].store.head()
      const shown = record ?? {}
      const entry = nextEntry(head, {
        at: '2026-01-01T00:00:00.000Z',
        who: 'x',
        what: 'subscription.set',
        subject: id,
        before: null,
        after: recordDigest(shown),
        reason: '',
      })
      await sqlOn(url, 'INSERT INTO audit VALUES ($1, $2)', [entry.seq, JSON.stringify(entry)])
      const changed = [id, entry.seq, JSON.stringify(record)]
      await sqlOn(url, 'UPDATE records SET seq = $2, record = $3 WHERE id = $1', changed)
      await sqlOn(url, 'UPDATE head SET seq = $1, hash = $2', [entry.seq, entry.hash])
      await until(() => isEqual(all) && all[0].store.head().seq === entry.seq, 'it')
      const refused = await all[0].shared.verbs.suspend(id, by)
      const code = record === null ? 'no-subscription' : 'invalid-record'
      expect(refused).toMatchObject({ ok: false, refusal: { code } })
    }
    for (const { store, shared } of all) {
      expect(shared.follower.invalidRecords).toBe(3)
      expect(store.find('bad')?.state).toBe('active')
    }
    expect((await all[1]!.shared.verbs.add({ label: 'next', products: ['bundle'] }, by)).ok).toBe(
      true,
    )
    await until(() => isEqual(all), 'the next change')
    // A gateway that starts with an empty folder.
    const { all: late } = await openCluster(1, url)
    expect(late[0].store.find('next')?.state).toBe('active')
    expect(late[0].store.find('bad')).toBeNull()
  })

  it('lets nobody in after ten minutes on a fork, and again once it follows', async () => {
    const url = await postgres.database()
    let laterMs = 0
    const clock = { ...systemClock, monotonicMs: () => performance.now() + laterMs }
    const gateway = openGateway(url, 'forked', { clock })
    gateways.push(gateway)
    await gateway.shared.seed()
    await gateway.start()
    const { follower } = gateway.shared
    const { hash } = gateway.store.head()
    await sqlOn(url, `UPDATE head SET hash = '${'f'.repeat(64)}'`)
    await until(() => follower.state === 'forked', 'the fork')
    expect(gateway.shared.isExpired()).toBe(false)
    laterMs = 600_000
    await until(() => gateway.shared.isExpired(), 'the end of its time')
    await sqlOn(url, 'UPDATE head SET hash = $1', [hash])
    await until(() => follower.state === 'following', 'the chain')
    expect(gateway.shared.isExpired()).toBe(false)
  })

  it('refuses to join a database without a registry, or with another one', async () => {
    const url = await postgres.database()
    const first = openGateway(url, 'first')
    const second = openGateway(url, 'second')
    gateways.push(first, second)
    await expect(first.start()).rejects.toThrow('run npx --no -- sluice cluster seed once')
    second.store.add({ label: 'mine', products: ['bundle'] }, by)
    expect(await first.shared.seed()).toBe(true)
    expect(await first.shared.seed()).toBe(false)
    await expect(second.start()).rejects.toThrow('changes that the cluster does not have')
    // What follows a cluster changes there only.
    expect(first.store.add({ label: 'x', products: ['bundle'] }, by)).toMatchObject({
      ok: false,
      refusal: { code: 'in-cluster' },
    })
  })

  it('reads on and refuses changes as unavailable while PostgreSQL is away', async () => {
    const { all } = await openCluster(1)
    await all[0].shared.verbs.add({ label: 'here', products: ['bundle'] }, by)
    postgres.stop()
    await until(() => !all[0].cluster.writing.isUp(), 'the end of the connection')
    expect(all[0].store.find('here')?.state).toBe('active')
    const refused = await all[0].shared.verbs.end('here', by)
    expect(refused).toMatchObject({ ok: false, refusal: { kind: 'unavailable' } })
    postgres.start()
    await until(() => all[0].cluster.writing.isUp(), 'the connection')
    expect((await all[0].shared.verbs.end('here', by)).ok).toBe(true)
  })

  it('shows by command what was last known while PostgreSQL is away, and says so', async () => {
    const { url } = await openCluster(1)
    process.env.SLUICE_CLUSTER__URL = url
    onTestFinished(() => void delete process.env.SLUICE_CLUSTER__URL)
    const folder = newFolder()
    const list = () => sluice(folder, 'subscription', 'list')
    const add = await sluice(folder, 'subscription', 'add', 'here', '--product', 'bundle')
    expect(add.code).toBe(0)
    expect(await list()).toMatchObject({ code: 0, stderr: '' })
    postgres.stop()
    const [listed, doctor, ended] = await Promise.all([
      list(),
      sluice(folder, 'doctor'),
      sluice(folder, 'subscription', 'end', 'here', '--yes'),
    ])
    expect([listed.code, listed.stdout]).toEqual([0, expect.stringContaining('here')])
    expect(listed.stderr).toMatch(
      /^the cluster's registry could not be followed: .* last known.*\n$/,
    )
    expect(doctor.stdout).toMatch(/^fail +registry +the cluster's registry could not be followed/m)
    expect([ended.code, ended.stderr]).toEqual([1, expect.stringContaining('was not changed')])
    postgres.start()
    expect(await list()).toMatchObject({ code: 0, stderr: '' })
  })

  it('follows no change without its record, also where the next one is made meanwhile', async () => {
    const { url, all } = await openCluster(1)
    const { verbs } = all[0].shared
    await verbs.add({ label: 'one', products: ['bundle'] }, by)
    const behind = openGateway(url, 'behind')
    gateways.push(behind)
    const { store } = behind
    await behind.cluster.reading.ready(hangMs)
    const head = async () => {
      const found = await behind.shared.verbs.head()
      if (store.head().seq === 0) await verbs.rotate('one', { graceMs: 0 }, by)
      return found
    }
    const news = {
      head,
      after: (seq: number, count: number) => behind.shared.verbs.after(seq, count),
      onNews: () => () => {},
      heal: async () => 0,
    }
    const deps = { news, store, clock: systemClock, log: silentLog }
    await new RegistryFollower(deps).pull()
    // Were the database to lose the rotation now, nothing would bring the record.
    expect(store.verifyAudit()).toMatchObject({ ok: true, entries: 2 })
  })

  it('removes old days of usage by its own clock, and no batch waits for that', async () => {
    const { url } = await openCluster(1)
    const dayMs = 86_400_000
    const ahead = { ...systemClock, nowMs: () => Date.now() + 60 * dayMs }
    const gateway = openGateway(url, 'ahead', { clock: ahead })
    gateways.push(gateway)
    await gateway.start()
    const dayAgo = (days: number) => new Date(Date.now() - days * dayMs).toISOString().slice(0, 10)
    for (const days of [40, 100])
      await sqlOn(url, `INSERT INTO usage_days VALUES ('s', $1, 1, 1, 0, 0, 0)`, [dayAgo(days)])
    const sleeping = `SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'`
    const locking = sqlOn(
      url,
      `WITH locked AS (SELECT 1 FROM usage_days WHERE day = $1 FOR UPDATE)
       SELECT pg_sleep(3) FROM locked`,
      [dayAgo(100)],
    )
    await until(async () => (await sqlOn(url, sleeping)).length > 0, 'the lock')
    const counts = { credits: 1, calls: 1, refused: 0, notifications: 0, bytes: 0 }
    const rows = [{ id: 's', window: 0, day: dayAgo(0), ...counts }]
    const totals = await gateway.shared.usage.use({ session: 'g', number: 1, rows })
    expect(totals).toEqual([{ id: 's', window: 0, credits: 1 }])
    expect(await sqlOn(url, sleeping)).not.toEqual([])
    await locking
    const days = async () => (await gateway.shared.usage.days('s')).map(({ day }) => day)
    await until(async () => (await days()).length === 2, 'the oldest day to go')
    expect(await days()).toEqual([dayAgo(40), dayAgo(0)])
  })

  it('counts usage exactly once over all gateways when answers are lost', async () => {
    const { url, all } = await openCluster(1)
    const added = await all[0].shared.verbs.add({ label: 'used', products: ['bundle'] }, by)
    if (!added.ok) throw new Error(added.refusal.message)
    const { id } = added.value.subscription
    const cut = await TcpCut.open(`127.0.0.1:${postgres.port}`)
    const through = openGateway(url.replace(/:\d+\//, `:${cut.target.split(':')[1]}/`), 'through')
    gateways.push(through)
    await through.start()
    const learned: number[] = []
    const users = [all[0], through].map(({ shared, store, cluster }) => {
      const usage = new SharedUsage({
        usage: shared.usage,
        session: cluster.session,
        store,
        clock: systemClock,
        log: silentLog,
      })
      usage.onTotals = ([total]) => learned.push(total!.credits)
      return usage
    })
    const one = { id, window: 0, credits: 3, calls: 1, refused: 0, notifications: 0, bytes: 10 }
    for (let round = 0; round < 60; round++) {
      for (const usage of users) await usage.addUsage([one])
      // The statement arrives and its answer does not.
      if (round === 20 || round === 40) cut.cut()
      if (round % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await until(() => users.every((usage) => usage.unconfirmed() === 0), 'the usage')
    const report = await all[0].shared.report('used')
    expect(report?.window.credits).toBe(360)
    expect(report?.days.map(({ calls, bytes }) => [calls, bytes])).toEqual([[120, 1_200]])
    await until(() => Math.max(...learned) === 360, 'the total of both')
    for (const usage of users) await usage.stop()
    cut.close()
  })
})

function randomOf(seed: number): () => number {
  let state = seed * 2_654_435_761
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    return state / 2 ** 32
  }
}

type Any = Verbs<'now'> | Verbs<'later'>

/** A change, right or wrong, of a few labels and addresses that meet often. */
function randomChange(random: () => number, prefix: string) {
  const label = `${prefix}-${Math.floor(random() * 3)}`
  const other = `${prefix}-${Math.floor(random() * 3)}`
  const address = `10.0.0.${1 + Math.floor(random() * 2)}:20000`
  const products = random() < 0.5 ? ['bundle'] : ['bundle', 'indexer', 'shredstream']
  const changes: readonly ((verbs: Any) => unknown)[] = [
    (verbs) => verbs.add({ label, products }, by),
    (verbs) => verbs.add({ label, products: ['rpc'] }, by),
    (verbs) => verbs.set(label, { label: other, products }, by),
    (verbs) => verbs.suspend(label, by),
    (verbs) => verbs.resume(label, by),
    (verbs) => verbs.end(label, by),
    (verbs) => verbs.rotate(label, { graceMs: random() < 0.5 ? 0 : 3_600_000 }, by),
    (verbs) => verbs.rotateIndexer(label, by),
    (verbs) => verbs.setDestination(label, address, by),
    (verbs) => verbs.confirmDestination(label, by),
    (verbs) => verbs.pauseDestination(label, by),
    (verbs) => verbs.clearDestination(label, by),
    (verbs) => verbs.addNote(label, { kind: 'other', text: 'a note' }, by),
  ]
  const change = changes[Math.floor(random() * changes.length)]!
  return (verbs: Any) => change(verbs) as Outcome<unknown> | Promise<Outcome<unknown>>
}

/** An outcome without what differs by chance: ids, secrets and times. */
function shape(outcome: Outcome<unknown>): unknown {
  if (!outcome.ok) return outcome.refusal.code
  const { subscription = outcome.value } = outcome.value as { subscription?: Subscription }
  return facts([subscription as Subscription])[0]
}

function facts(all: readonly Subscription[]) {
  return all
    .map(({ label, products, plan, state, destination, note }) => ({
      label,
      products,
      plan,
      state,
      destination,
      note,
    }))
    .sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
}
