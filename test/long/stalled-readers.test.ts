// Readers with from_slot that stop reading, over real sockets, beside a stream of everything: the
// server's memory stays flat for as long as they stall, and afterwards they get all, once.
// Each sample follows a collection of garbage, the one before the readers stall included: otherwise
// it depends on when the collector last ran, which two baselines of the same server showed.
//
//   SLUICE_LONG_MINUTES=10 npx vitest run --config vitest.long.config.ts test/long/stalled-readers
import { Client, credentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { lineOf } from '../testkit/consumer-client.ts'
import { everything } from '../testkit/geyser-everything.ts'
import { Subscription, withToken } from '../testkit/grpc-stage.ts'
import { MemoryProbe, type MemorySample, median, riseOf } from '../testkit/memory-probe.ts'
import { provision, type Server, startServer } from '../testkit/server.ts'
import { isSlice } from '../testkit/slice.ts'
import { noteOf, SlotLines } from '../testkit/slot-audit.ts'
import { until } from '../testkit/until.ts'

const minutes = Number(process.env.SLUICE_LONG_MINUTES ?? (isSlice ? 0.5 : 10))
const readers = Number(process.env.SLUICE_LONG_CLIENTS ?? (isSlice ? 10 : 50))
const mebibyte = 1024 * 1024
/** What waits for a reader: 1 MiB that was matched ahead, and 256 KiB handed to its socket. */
const aheadBytes = 1.25 * mebibyte
/** Some 20 kB in every slot. */
const slotHashes = 'SysvarS1otHashes111111111111111111111111111'
const filter = { accounts: { a: { account: [slotHashes], owner: [], filters: [] } } }
const clients: Client[] = []
const probe = new MemoryProbe()
let server: Server
let token: string

beforeAll(async () => {
  const flags = ['--metrics.enabled=false', '--tpu.enabled=false', '--shredstream.enabled=false']
  server = await startServer({
    ...probe.options,
    flags: [...flags, '--chain.slotMs=400', '--chain.traffic=5'],
  })
  token = (await provision(server.data, 'a', '--product=bundle', '--plan=unlimited')).token
})

afterAll(async () => {
  for (const client of clients) client.close()
  await server?.dispose()
  probe.dispose()
})

function open(request: object): Subscription {
  const client = new Client(new URL(server.url('grpc')).host, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  })
  clients.push(client)
  const stream = new Subscription(client, withToken(token))
  stream.ask(request)
  return stream
}

const sample = () => probe.sample(server.child.pid!)

/** Of the samples of a stall, by what was there before it, in MiB. */
function shownOf(before: MemorySample, samples: readonly MemorySample[]) {
  const part = Math.ceil(samples.length / 3)
  const shown = (of: (one: MemorySample) => number) => {
    const values = samples.map((one) => of(one) / mebibyte)
    return {
      before: of(before) / mebibyte,
      early: Math.max(...values.slice(0, part)),
      late: Math.max(...values.slice(-part)),
      middle: median(values),
      /** In the second half: what a stall needs once is there by then. */
      rise: riseOf(values.slice(values.length >> 1)),
    }
  }
  return { retained: shown(({ retained }) => retained), resident: shown((one) => one.resident) }
}

/** What a stream has, slot by slot, as far as a slot is final. */
class Reader {
  readonly stream: Subscription
  readonly lines = new SlotLines()
  settled = 0

  constructor(request: object) {
    this.stream = open(request)
  }

  read(): void {
    for (let at = 0; at < this.stream.updates.length; at++)
      for (const line of lineOf(this.stream, at)) {
        const { slot, name, isFinal } = noteOf(line)
        this.lines.add(slot, name)
        if (isFinal) this.settled = Math.max(this.settled, slot)
      }
    this.stream.updates.length = 0
    this.stream.raw.length = 0
    expect(this.stream.status).toBeNull()
  }
}

it(
  `hold up nothing in ${minutes} minutes: ${readers} of them`,
  async () => {
    const full = open(everything)
    const forget = () => {
      full.updates.length = 0
      full.raw.length = 0
      expect(full.status).toBeNull()
    }
    const watched = new Reader({ ...filter, slots: { s: {} } })
    const isFinal = async (slot: number) => {
      await until(() => {
        forget()
        watched.read()
        return watched.settled >= slot
      }, `slot ${slot}`)
    }
    // The hub is full before memory is looked at: what it keeps by itself is no part of a rise.
    await isFinal(watched.settled + 150)
    const fromSlot = watched.settled - 20
    const openAll = () =>
      Array.from({ length: readers }, () => new Reader({ ...filter, slots: { s: {} }, fromSlot }))
    // As many that read: what the server needs for them otherwise is there before, too.
    for (const reader of openAll()) {
      await until(() => {
        forget()
        watched.read()
        reader.read()
        return reader.settled >= fromSlot + 10
      }, 'a reader')
      reader.stream.stream.cancel()
    }
    await isFinal(watched.settled + 5)
    const before = await sample()
    const stalled = openAll()
    for (const { stream } of stalled) stream.stream.pause()
    const samples: MemorySample[] = []
    const startedMs = performance.now()
    while (performance.now() - startedMs < minutes * 60_000) {
      await isFinal(watched.settled + (isSlice ? 5 : 20))
      samples.push(await sample())
    }
    const last = watched.settled
    const shown = shownOf(before, samples)
    const stalledMin = ((performance.now() - startedMs) / 60_000).toFixed(1)
    console.info(`${readers} readers stalled for ${stalledMin} min, slots ${fromSlot} to ${last}`)
    for (const [name, { before, early, late, rise }] of Object.entries(shown))
      console.info(
        `${name}: ${before.toFixed(1)} MiB before, ${early.toFixed(1)} in the first third, ` +
          `${late.toFixed(1)} in the last, ${rise.toFixed(2)} up in the second half`,
      )
    for (const { before, early, late, middle, rise } of Object.values(shown)) {
      expect((late - before) * mebibyte).toBeLessThan(2 * readers * aheadBytes)
      expect(late).toBeLessThan(1.1 * early)
      expect(rise).toBeLessThan(0.05 * middle)
    }
    const due = new Map<number, string[]>()
    for (let slot = fromSlot; slot <= last; slot++)
      due.set(slot, watched.lines.take(slot).toSorted())
    for (const reader of stalled) {
      expect(reader.stream.status).toBeNull()
      reader.stream.stream.resume()
      await until(() => {
        forget()
        watched.read()
        reader.read()
        return reader.settled >= last
      }, 'the rest')
      for (const [slot, names] of due)
        expect(reader.lines.take(slot).toSorted(), `slot ${slot}`).toEqual(names)
      reader.stream.stream.cancel()
    }
  },
  minutes * 60_000 + 1_800_000,
)
