// How long a lease is without a holder after kill -9 of the process that had it. Thread: main of the
// bench process, which takes over; the holder is a process of its own.
// Each lease has a keeper of its own on both sides, started at another time: the renewals are spread
// over their interval.

import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock as clock } from '../../src/base/clock.ts'
import { LeaseKeeper } from '../../src/customers/cluster/lease-keeper.ts'
import { PostgresLeases } from '../../src/customers/cluster/postgres/tables.ts'
import { Latencies } from '../../src/loadtest/latencies.ts'
import { startProcess } from '../../test/testkit/process.ts'
import { until } from '../../test/testkit/until.ts'
import type { Measurement } from './bench.ts'
import { connectTo, measured, readyMs } from './cluster-steps.ts'

export const leaseCount = 20
const betweenMs = 37
let round = 0

export interface KeptLeases {
  /** Leases that are held now. */
  held(): number
  stop(): Promise<void>
}

/** Keepers of all leases, one each; `onHeld` is called with each that is taken. */
export async function keepLeases(
  url: string,
  session: string,
  onHeld: () => void = () => {},
): Promise<KeptLeases> {
  const connection = await connectTo(url, session)
  const leases = new PostgresLeases(connection, { holder: session, info: session, clock })
  const keepers: LeaseKeeper[] = []
  const held = () => keepers.filter((keeper) => keeper.isHeld('lease')).length
  for (let index = 0; index < leaseCount; index++) {
    const keeper = new LeaseKeeper({ leases, clock, kind: `bench${index}`, session })
    keeper.start({
      wanted: () => ['lease'],
      onChanged: () => {
        if (keeper.isHeld('lease')) onHeld()
      },
      onDeadline: () => {},
    })
    keepers.push(keeper)
    await sleep(betweenMs)
  }
  const stop = async () => {
    await Promise.all(keepers.map((keeper) => keeper.stop()))
    await connection.stop()
  }
  return { held, stop }
}

export async function takeOver(url: string): Promise<Measurement> {
  round += 1
  const histogram = new Latencies()
  const holder = startProcess(new URL('../load/clients/lease-holder.js', import.meta.url))
  let killedMs = Number.POSITIVE_INFINITY
  let early = 0
  await holder.call('hold', { url, session: `holder${round}` })
  const standby = await keepLeases(url, `standby${round}`, () => {
    const ms = performance.now() - killedMs
    if (ms >= 0) histogram.record(ms)
    else early += 1
  })
  try {
    killedMs = performance.now()
    process.kill(holder.pid, 'SIGKILL')
    await until(() => histogram.count + early >= leaseCount, 'all leases', readyMs)
    const { evidence, ...rest } = measured(histogram, performance.now() - killedMs)
    return { ...rest, evidence: { ...evidence, early } }
  } finally {
    await standby.stop()
    await holder.stop()
  }
}
