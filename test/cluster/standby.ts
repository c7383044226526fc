// A standby of a test's PostgreSQL by streaming replication, which the test promotes.
import { join } from 'node:path'
import { freePort } from '../testkit/free-port.ts'
import { until } from '../testkit/until.ts'
import {
  disposedAtExit,
  newServerFolder,
  type Postgres,
  PostgresProcess,
  runAside,
} from './postgres.ts'

export interface Standby extends Postgres {
  /** It takes writes from then on, on a timeline of its own. */
  promote(): Promise<void>
  /** It gets no further changes of the primary, as one that cannot follow. */
  detach(): Promise<void>
}

/** Copies the running primary, on that port or a free one, and follows it asynchronously. */
export async function startStandby(primary: Postgres, port?: number): Promise<Standby> {
  const { bin, base, folder } = newServerFolder()
  const source = `host=127.0.0.1 port=${primary.port} user=sluice application_name=standby`
  await runAside(join(bin, 'pg_basebackup'), [
    ...['-d', source, '-D', folder],
    ...['-R', '-X', 'stream', '-c', 'fast', '--no-sync'],
  ])
  const server = new PostgresProcess(bin, base, port ?? (await freePort()))
  await server.restart()
  disposedAtExit(server)
  const isFollowing = async () => (await replicas(primary, '')).length === 1
  await until(isFollowing, 'the standby to follow')
  return Object.assign(server, {
    promote: () => runAside(join(bin, 'pg_ctl'), ['-D', folder, '-w', '-t', '60', 'promote']),
    detach: async () => {
      await server.sql(`ALTER SYSTEM SET primary_conninfo = ''`)
      await server.sql('SELECT pg_reload_conf()')
      const isOff = async () => (await replicas(primary, '')).length === 0
      await until(isOff, 'the standby to be off')
    },
  })
}

/** From now on a commit of the primary waits for its standby. */
export async function waitForStandby(primary: Postgres): Promise<void> {
  await primary.sql(`ALTER SYSTEM SET synchronous_commit = 'remote_apply'`)
  await primary.sql(`ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (standby)'`)
  await primary.sql('SELECT pg_reload_conf()')
  const isSynchronous = async () => (await replicas(primary, 'quorum')).length === 1
  await until(isSynchronous, 'the standby to be synchronous')
}

/** From now on a commit of the primary waits for a standby that does not come. */
export async function waitForAbsent(primary: Postgres): Promise<void> {
  await primary.sql(`ALTER SYSTEM SET synchronous_standby_names = 'absent'`)
  await primary.sql('SELECT pg_reload_conf()')
  const isSet = async () => {
    const [row] = await primary.sql<{ names: string }>(
      `SELECT current_setting('synchronous_standby_names') AS names`,
    )
    return row?.names === 'absent'
  }
  await until(isSet, 'commits to wait')
}

/** A server without a standby would wait for one for ever. */
export async function waitForNobody(primary: Postgres): Promise<void> {
  await primary.sql(`ALTER SYSTEM SET synchronous_standby_names = ''`)
  await primary.sql('SELECT pg_reload_conf()')
}

function replicas(primary: Postgres, state: string): Promise<unknown[]> {
  return primary.sql(
    `SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state LIKE $1`,
    [`${state}%`],
  )
}
