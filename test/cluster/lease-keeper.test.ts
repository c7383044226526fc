// Destinations among several gateways: at no time two senders, even shares, a quick take-over.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { LeaseKeeper } from '../../src/customers/cluster/lease-keeper.ts'
import { PostgresConnection } from '../../src/customers/cluster/postgres/client.ts'
import { prepareSchema } from '../../src/customers/cluster/postgres/schema.ts'
import { PostgresLeases } from '../../src/customers/cluster/postgres/tables.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { hangMs, until, untilWithin } from '../testkit/until.ts'
import { isFull } from './full.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

/** `SLUICE_CLUSTER_FULL=1`: as many destinations and faults as the design demands. */
const names = Array.from({ length: isFull ? 64 : 8 }, (_, index) => `sub_${index}`)
const faults = isFull ? 12 : 0

interface Sender {
  readonly keeper: LeaseKeeper
  readonly cut: TcpCut
  /** Names that it sends to now: held, and before the deadline. */
  sending(): readonly string[]
  isKilled(): boolean
  /** As after kill -9: nothing is given back. */
  kill(): Promise<void>
  stop(): Promise<void>
}

describe.skipIf(!hasPostgres())('destinations among several gateways', () => {
  let postgres: Postgres
  const senders: Sender[] = []
  const overlaps: string[] = []
  const servedMs = new Map<string, number>()
  let silenceMs = 0
  let watching: NodeJS.Timeout
  beforeAll(async () => {
    postgres = await startPostgres()
    watching = setInterval(() => {
      const all = senders.flatMap((sender) => sender.sending())
      if (new Set(all).size < all.length) overlaps.push(all.join(' '))
      const nowMs = performance.now()
      for (const name of all) {
        silenceMs = Math.max(silenceMs, nowMs - (servedMs.get(name) ?? nowMs))
        servedMs.set(name, nowMs)
      }
    }, 5)
  })
  afterAll(async () => {
    clearInterval(watching)
    await Promise.all(senders.map((sender) => sender.stop()))
    postgres.dispose()
  })

  async function open(session: string): Promise<Sender> {
    const cut = await TcpCut.open(`127.0.0.1:${postgres.port}`)
    const url = postgres.url.replace(/:\d+\//, `:${cut.target.split(':')[1]}/`)
    const connection = new PostgresConnection({
      url,
      name: session,
      clock: systemClock,
      log: silentLog,
      onConnect: prepareSchema,
    }).start()
    await connection.ready(hangMs)
    const leases = new PostgresLeases(connection, {
      holder: session,
      info: session,
      clock: systemClock,
    })
    const keeper = new LeaseKeeper({ leases, clock: systemClock, kind: 'shred', session })
    let deadlineMs = 0
    let isKilled = false
    keeper.start({
      wanted: () => names,
      onChanged: () => {},
      onDeadline: (leftMs) => {
        deadlineMs = performance.now() + leftMs
      },
    })
    const sender: Sender = {
      keeper,
      cut,
      sending: () =>
        isKilled || performance.now() >= deadlineMs
          ? []
          : names.filter((name) => keeper.isHeld(name)),
      isKilled: () => isKilled,
      async kill() {
        isKilled = true
        cut.refuse(true)
        await keeper.stop()
        await connection.stop()
        cut.close()
      },
      async stop() {
        if (isKilled) return
        await keeper.stop()
        await connection.stop()
        cut.close()
      },
    }
    senders.push(sender)
    return sender
  }
  const served = () => senders.flatMap((sender) => sender.sending())
  const counts = () => senders.map((sender) => sender.sending().length)

  it('serves every destination, each by one gateway, and evenly as gateways join', async () => {
    await open('a')
    await until(() => served().length === names.length, 'the first gateway to serve all')
    await open('b')
    await open('c')
    // A fifth of the excess, at least one, is given back a second.
    await until(() => Math.max(...counts()) - Math.min(...counts()) <= 1, 'even shares')
    await until(() => served().length === names.length, 'all to be served')
    expect(overlaps).toEqual([])
  })

  it('takes over the destinations of a gateway that died or is cut off', async () => {
    const [first, second] = senders as [Sender, Sender]
    await first.kill()
    // Twice the 2.5 s of the contract.
    await untilWithin(5_000, () => served().length === names.length, 'the take-over')
    // The bytes of the second vanish: it stops by itself before the others start.
    second.cut.hold(true)
    await untilWithin(4_000, () => second.sending().length === 0, 'the cut off one to stop')
    await untilWithin(5_000, () => served().length === names.length, 'the take-over')
    second.cut.hold(false)
    second.cut.cut()
    await until(() => second.sending().length > 0, 'it to serve again')
    expect(overlaps).toEqual([])
  })

  it.skipIf(!isFull)('is even again after each of many kills and pauses', async () => {
    silenceMs = 0
    let evenMs = 0
    for (let fault = 0; fault < faults; fault++) {
      const live = senders.filter((sender) => !sender.isKilled())
      const victim = live[fault % live.length]!
      if (fault % 2 === 0) {
        await victim.kill()
        await open(`again-${fault}`)
      } else {
        victim.cut.hold(true)
        await until(() => victim.sending().length === 0, 'the cut off one to stop')
        victim.cut.hold(false)
        victim.cut.cut()
      }
      const beganMs = performance.now()
      await until(() => {
        const counts = senders.filter((one) => !one.isKilled()).map((one) => one.sending().length)
        const isEven = Math.max(...counts) - Math.min(...counts) <= 1
        return isEven && served().length === names.length
      }, 'even shares')
      evenMs = Math.max(evenMs, performance.now() - beganMs)
    }
    console.info(`longest silence ${Math.round(silenceMs)} ms, even after ${Math.round(evenMs)} ms`)
    expect(overlaps).toEqual([])
  })

  it('hands everything over at once when a gateway stops', async () => {
    const [second, ...rest] = senders.filter((sender) => !sender.isKilled())
    await second!.stop()
    senders.splice(senders.indexOf(second!), 1)
    const sending = () => rest.flatMap((sender) => sender.sending())
    // The next renewal of the others, twice a second, and one more where rows were locked.
    await untilWithin(2_000, () => sending().length === names.length, 'the take-over')
    expect(overlaps).toEqual([])
  })
})
