// Clients of the bench `edge`: crowds of connections from many loopback addresses, idle and busy,
// new connections at a rate, streams with distinct filters, attackers, and the probing customer.
// Thread: main of a process of its own.
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { encodeBase58 } from '../../../src/chain/solana/base58.ts'
import { loadCodec } from '../../../src/streams/geyser/codec.ts'
import { blockBatch, sendFrom } from '../../../test/testkit/from-address.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { EdgeLine, type EdgeTarget } from '../../lib/edge-line.ts'

export interface CrowdOrder {
  readonly target: EdgeTarget
  readonly idle: number
  readonly busy: number
  /** Each busy connection asks this often; every second one never reads its answers. */
  readonly everyMs: number
}

export interface CrowdCounts {
  readonly open: number
  /** By status, or `closed`. */
  readonly refused: Readonly<Record<string, number>>
  /** Ended by the server after they were open. */
  readonly ended: number
  readonly asked: number
  readonly wrong: number
}

/** Connections of an address: less than any endpoint allows. */
const perAddress = 8
/** Connections that are being opened at once. */
const opening = 256
/** Of all connections beyond a limit. */
const oneAddress = '127.2.0.1'
const closeMs = 500
/** Requests of an attacker at once: two more than may wait for its budget. */
const attacksAtOnce = 18
let lines: EdgeLine[] = []
let counts = zero()
let isOver = false
let loops: Promise<void>[] = []
const clients: Client[] = []

function zero() {
  return { ended: 0, asked: 0, wrong: 0, refused: {} as Record<string, number> }
}

function addressOf(index: number): string {
  const number = Math.floor(index / perAddress) + 256
  return `127.1.${(number >> 8) & 255}.${number & 255}`
}

async function open(target: EdgeTarget, address: string): Promise<EdgeLine> {
  const line = new EdgeLine(target, address)
  await line.opened()
  if (line.refused !== null) counts.refused[line.refused] = (counts.refused[line.refused] ?? 0) + 1
  else
    line.onclose = () => {
      if (!isOver) counts.ended++
    }
  return line
}

async function openMany(
  target: EdgeTarget,
  count: number,
  address: (index: number) => string,
): Promise<EdgeLine[]> {
  const opened: EdgeLine[] = []
  let next = 0
  const work = async () => {
    while (next < count) opened.push(await open(target, address(next++)))
  }
  await Promise.all(Array.from({ length: opening }, work))
  return opened
}

async function keepBusy(line: EdgeLine, everyMs: number, isSlow: boolean): Promise<void> {
  await sleep(Math.random() * everyMs)
  if (isSlow) line.socket.pause()
  while (!isOver && !line.isClosed) {
    const nextMs = performance.now() + everyMs
    counts.asked++
    if (isSlow) line.send()
    else if (!(await line.ask()) && !line.isClosed) counts.wrong++
    await sleep(Math.max(1, nextMs - performance.now()))
  }
}

function countsNow(): CrowdCounts {
  return { ...counts, open: lines.filter(({ isClosed }) => !isClosed).length }
}

/** Opens a connection, asks once, and closes it; `perSecond` times. */
async function renew(target: EdgeTarget, perSecond: number): Promise<void> {
  let made = 0
  const startedMs = performance.now()
  const one = async (index: number) => {
    const line = await open(target, addressOf(index % 20_000))
    line.onclose = () => {}
    if (line.refused === null) {
      counts.asked++
      if (!(await line.ask()) && !isOver) counts.wrong++
    }
    // Without TIME_WAIT, which would use up the ports.
    line.socket.resetAndDestroy()
  }
  const under = new Set<Promise<void>>()
  while (!isOver) {
    const due = ((performance.now() - startedMs) / 1000) * perSecond
    // What a busy machine is behind is not made up for at once.
    for (; made < due && under.size < opening; made++) {
      const making = one(made)
      under.add(making)
      void making.then(() => under.delete(making))
    }
    if (made < due) made = Math.floor(due)
    await sleep(2)
  }
  await Promise.all(under)
}

/** Streams with a filter of their own each; every second one is not read. */
function subscribe({ port, token }: EdgeTarget, count: number): void {
  const codec = loadCodec()
  const own = counts
  const metadata = new Metadata()
  metadata.set('x-token', token)
  const plain = (bytes: Buffer) => bytes
  for (let index = 0; index < count; index++) {
    if (index % 10 === 0)
      clients.push(
        new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
          'grpc.use_local_subchannel_pool': 1,
        }),
      )
    const key = encodeBase58(crypto.getRandomValues(new Uint8Array(32)))
    const stream = clients
      .at(-1)!
      .makeBidiStreamRequest('/geyser.Geyser/Subscribe', plain, plain, metadata)
    stream.on('error', () => {
      // Those that were left end while the next load runs.
      if (!isOver && own === counts) counts.wrong++
    })
    let isFirst = true
    stream.on('data', () => {
      if (isFirst) counts.asked++
      isFirst = false
      if (index % 2 === 1) stream.pause()
    })
    const request = {
      slots: { s: {} },
      transactions: { t: { accountInclude: [key] } },
      accounts: { a: { account: [key] } },
    }
    stream.write(Buffer.from(codec.encode('geyser.SubscribeRequest', request)))
  }
}

/** Asks for as much as its budget gives: answers are late, and those beyond that refused. */
async function attack(url: string, address: string, pauseMs: number): Promise<void> {
  while (!isOver) {
    const sending = { method: 'POST', body: blockBatch(100) }
    const { status } = await sendFrom(address, url, sending)
    counts.asked++
    if (status === 200) continue
    counts.refused[status] = (counts.refused[status] ?? 0) + 1
    await sleep(pauseMs)
  }
}

export interface ProbeOrder {
  readonly targets: readonly EdgeTarget[]
  readonly seconds: number
  readonly everyMs: number
}

/** Milliseconds of each answer by endpoint; NaN for a wrong one. */
export type Probed = Readonly<Record<string, number[]>>

async function probe({ targets, seconds, everyMs }: ProbeOrder): Promise<Probed> {
  const endMs = performance.now() + seconds * 1000
  const probed = await Promise.all(
    targets.map(async (target, index) => {
      const line = new EdgeLine(target, '127.0.0.1')
      await line.opened()
      // The first answer compiles code and fills caches.
      await line.ask()
      const times: number[] = []
      await sleep((everyMs * index) / targets.length)
      do {
        const startMs = performance.now()
        times.push((await line.ask()) ? performance.now() - startMs : Number.NaN)
        await sleep(Math.max(1, everyMs - (performance.now() - startMs)))
      } while (performance.now() < endMs)
      line.socket.destroy()
      return [target.endpoint, times] as const
    }),
  )
  return Object.fromEntries(probed)
}

serveBench({
  async crowd({ target, idle, busy, everyMs }: CrowdOrder): Promise<CrowdCounts> {
    isOver = false
    counts = zero()
    lines = await openMany(target, idle + busy, addressOf)
    loops = lines.slice(0, busy).map((line, index) => keepBusy(line, everyMs, index % 2 === 1))
    return countsNow()
  },
  /** All from one address; the lines stay open. */
  async beyond({ target, count }: { target: EdgeTarget; count: number }): Promise<CrowdCounts> {
    isOver = false
    counts = zero()
    const opened = await openMany(target, count, () => oneAddress)
    lines.push(...opened)
    // The native server closes what it refuses a moment after it has accepted it.
    await sleep(closeMs)
    return { ...counts, open: opened.filter(({ isClosed }) => !isClosed).length }
  },
  renew({ targets, perSecond }: { targets: EdgeTarget[]; perSecond: number }): void {
    isOver = false
    counts = zero()
    loops = targets.map((target) => renew(target, perSecond / targets.length))
  },
  subscribe({ target, count }: { target: EdgeTarget; count: number }): void {
    isOver = false
    counts = zero()
    subscribe(target, count)
  },
  attack({ url, count, pauseMs }: { url: string; count: number; pauseMs: number }): void {
    isOver = false
    counts = zero()
    loops = Array.from({ length: count * attacksAtOnce }, (_, index) =>
      attack(url, `127.0.0.${(index % count) + 2}`, pauseMs),
    )
  },
  counts: countsNow,
  /** The counts at the end. */
  async leave(): Promise<CrowdCounts> {
    const last = countsNow()
    isOver = true
    for (const line of lines.splice(0)) line.socket.resetAndDestroy()
    for (const client of clients.splice(0)) client.close()
    await Promise.all(loops.splice(0))
    return { ...last, refused: counts.refused }
  },
  probe,
})
