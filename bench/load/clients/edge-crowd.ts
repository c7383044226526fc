// Clients of the bench `edge`: crowds of connections from many loopback addresses, idle and busy,
// streams with distinct filters, and the probing customer. New connections at a rate and attackers
// are of a native program that this process starts and ends. Thread: main of a process of its own.
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { encodeBase58 } from '../../../src/chain/solana/base58.ts'
import { loadCodec } from '../../../src/streams/geyser/codec.ts'
import { blockBatch } from '../../../test/testkit/from-address.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { batchBytes, bytesOf, EdgeLine, type EdgeTarget } from '../../lib/edge-line.ts'
import { type EdgeLoadOptions, type LoadCounts, startEdgeLoad } from '../../lib/edge-load.ts'

export interface CrowdOrder {
  readonly target: EdgeTarget
  readonly idle: number
  readonly busy: number
  /** Each busy connection asks this often; every second one never reads its answers. */
  readonly everyMs: number
}

export interface AttackOrder {
  readonly port: number
  /** Addresses. */
  readonly count: number
  readonly pauseMs: number
}

/** A load that is not of new connections has none that are due. */
export interface CrowdCounts extends LoadCounts {
  readonly open: number
  /** Ended by the server after they were open. */
  readonly ended: number
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
let counts: ReturnType<typeof zero> = zero()
let isOver = false
let loops: Promise<void>[] = []
let endNative = async () => {}
const clients: Client[] = []
/** A client that is closed leaves its calls open. */
const calls: { cancel(): void }[] = []

function zero() {
  const refused: Record<string, number> = {}
  return { ended: 0, asked: 0, wrong: 0, due: 0, late: 0, full: 0, refused }
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

/** Its counts become those of this process. */
async function startNative(options: Omit<EdgeLoadOptions, 'onCounts'>): Promise<void> {
  counts = zero()
  const onCounts = (told: LoadCounts) => {
    counts = { ended: 0, ...told }
  }
  endNative = await startEdgeLoad({ ...options, onCounts })
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
    calls.push(stream)
    stream.on('error', () => {
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
  /** New connections that ask once each, of all targets together. */
  async renew({ targets, perSecond }: { targets: EdgeTarget[]; perSecond: number }): Promise<void> {
    await startNative({ mode: 'renew', words: [perSecond], targets: targets.map(bytesOf) })
  },
  subscribe({ target, count }: { target: EdgeTarget; count: number }): void {
    isOver = false
    counts = zero()
    subscribe(target, count)
  },
  /** Asks for as much as the budgets of addresses give: answers are late, those beyond refused. */
  async attack({ port, count, pauseMs }: AttackOrder): Promise<void> {
    const words = [count, attacksAtOnce, pauseMs]
    const targets = [batchBytes(port, blockBatch(100))]
    await startNative({ mode: 'attack', words, targets })
  },
  counts: countsNow,
  /** The counts at the end. */
  async leave(): Promise<CrowdCounts> {
    await endNative()
    const last = countsNow()
    isOver = true
    for (const line of lines.splice(0)) line.socket.resetAndDestroy()
    for (const call of calls.splice(0)) call.cancel()
    for (const client of clients.splice(0)) client.close()
    await Promise.all(loops.splice(0))
    return last
  },
  probe,
})
