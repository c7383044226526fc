// `sluice shreds ...`: shows the live state of ShredStream, receives shreds as a customer's machine
// does, and sends those of a capture. Rates are the difference of two samples, a second apart.
import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import { resolve } from 'node:path'
import { formatAddress } from '../../base/cidr.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { pcapHeader, pcapRecord, readPcap } from '../../base/transport/pcap.ts'
import { UdpSocket } from '../../base/transport/udp.ts'
import { ShredTally, type SlotTally } from '../../chain/solana/shred.ts'
import { isChallenge } from '../../chain/solana/shred-signature.ts'
import { parseEndpoint, type Subscription } from '../../customers/subscriptions/subscription.ts'
import type { Config } from '../config/config.ts'
import { readEndpoints } from './credentials.ts'
import { recordOf, tableOf, timeOf } from './output.ts'
import { askRunning, byOf, withStore } from './registry.ts'
import {
  type Call,
  flagOf,
  flagTable,
  hasSwitch,
  isJson,
  misuse,
  numberOf,
  type Report,
  refusedFault,
  type Verb,
} from './verb.ts'

type Numbers = Readonly<Record<string, number>>

/** What products/shredstream/server.ts reports. */
interface ShredsReport {
  readonly io: string
  /** Core of a worker that polls. */
  readonly core: number | null
  readonly feed: string
  readonly at: number
  readonly kernelDrops: number
  readonly totals: Numbers
  readonly sources: readonly ({ readonly source: string } & Numbers)[]
  readonly destinations: readonly Readonly<Record<string, string | number>>[]
  readonly slots: readonly Numbers[]
}

const sampleMs = 1000
const slotsShown = 8

export const shredsVerb: Verb = {
  words: ['shreds'],
  api: 'read',
  summary: 'Show shred rates, sources, destinations and losses per slot.',
  examples: ['shreds', 'shreds --watch'],
  flags: [{ name: 'watch', doc: 'Refresh every second until Ctrl-C.' }],
  async run(call) {
    const first = await sample(call)
    if (!first.ok) return first
    let before = first.value
    for (;;) {
      await new Promise((done) => setTimeout(done, sampleMs))
      const next = await sample(call)
      if (!next.ok) return next
      const report = reportOf(before, next.value)
      if (!hasSwitch(call, 'watch')) return accept(report)
      before = next.value
      process.stdout.write(
        isJson(call) ? `${JSON.stringify(report.json)}\n` : `\u001b[2J\u001b[H${report.text}\n`,
      )
    }
  },
}

async function sample({ loaded }: Call): Promise<Outcome<ShredsReport>> {
  const answer = await askRunning<ShredsReport | null>(resolve(loaded.config.data), 'shreds')
  if (!answer.ok) return answer
  return answer.value === null
    ? refuse('rejected', 'off', 'shredstream.enabled is false')
    : accept(answer.value)
}

function reportOf(before: ShredsReport, now: ShredsReport): Report {
  const seconds = Math.max(0.001, (now.at - before.at) / 1000)
  const rate = (name: string) => ((now.totals[name] ?? 0) - (before.totals[name] ?? 0)) / seconds
  const rates = {
    inPerSecond: rate('received'),
    acceptedPerSecond: rate('accepted'),
    outPerSecond: rate('sent'),
    outMegabitsPerSecond: (rate('sentBytes') * 8) / 1e6,
  }
  const dropped = droppedOf(now)
  const text = [
    recordOf([
      ['path', now.core === null ? now.io : `${now.io}, polling on core ${now.core}`],
      ['feed', now.feed],
      ['in', `${rates.inPerSecond.toFixed(0)}/s, ${now.totals.received} in all`],
      ['first copies', `${rates.acceptedPerSecond.toFixed(0)}/s, ${now.totals.accepted} in all`],
      [
        'out',
        `${rates.outPerSecond.toFixed(0)}/s, ${rates.outMegabitsPerSecond.toFixed(1)} Mbit/s, ` +
          `${now.totals.sent} in all`,
      ],
      ['rebuilt', String(now.totals.rebuilt)],
      ['dropped', dropped === '' ? 'none' : dropped],
      ['lost in the kernel', String(now.kernelDrops)],
    ]),
    sourcesTable(now),
    destinationsTable(now),
    slotsTable(now),
  ].join('\n\n')
  return { json: { ...now, rates }, text }
}

const dropReasons = 'size variant version slot layout source duplicate signature cap error'.split(
  ' ',
)

function droppedOf({ totals }: ShredsReport): string {
  const seen = dropReasons.filter((reason) => (totals[reason] ?? 0) > 0)
  return seen.map((reason) => `${reason} ${totals[reason]}`).join(', ')
}

function sourcesTable({ sources, totals }: ShredsReport): string {
  const rows = sources.map((source) => {
    const share = totals.accepted ? (100 * (source.first ?? 0)) / totals.accepted : 0
    const lag = source.lagSamples ? (source.lagMs ?? 0) / source.lagSamples : null
    return [
      source.source,
      String(source.packets),
      `${share.toFixed(1)} %`,
      lag === null ? '-' : `${lag.toFixed(3)} ms`,
    ]
  })
  return tableOf(['source', 'packets', 'first', 'mean lag'], rows, 'No sources.')
}

function destinationsTable({ destinations }: ShredsReport): string {
  const rows = destinations.map((one) => [
    String(one.label),
    String(one.address),
    String(one.state),
    String(one.packets ?? 0),
    String(one.droppedCap ?? 0),
    String(one.droppedError ?? 0),
    String(one.refused ?? 0),
    Number(one.lastErrno ?? 0) === 0 ? '-' : `errno ${one.lastErrno}`,
    Number(one.lastSentMs ?? 0) === 0 ? '-' : timeOf(Number(one.lastSentMs)),
  ])
  const head = ['subscription', 'address', 'state', 'packets', 'over cap', 'failed', 'refused']
  return tableOf([...head, 'last error', 'last sent'], rows, 'No destinations.')
}

function slotsTable({ slots }: ShredsReport): string {
  const head = ['slot', 'data', 'code', 'missing', 'rebuilt', 'duplicates']
  const rows = slots.slice(0, slotsShown).map((slot) => head.map((name) => String(slot[name])))
  return tableOf(head, rows, 'No slots yet.')
}

const bufferBytes = 32 * 1024 * 1024
const reportMs = 1000
const listenLimits = [0, 999_999_999] as const

export const listenVerb: Verb = {
  words: ['shreds', 'listen'],
  summary: 'Receive shreds: answer the challenge, check, count, report rate and losses.',
  examples: [
    'shreds listen 20010 --for demo',
    'shreds listen 20010 --seconds 10 --pcap shreds.pcap',
  ],
  positionals: [{ name: 'port', doc: 'UDP port to listen on; 0 is any free port.' }],
  flags: [
    { name: 'host', value: 'address', doc: 'Address to listen on [127.0.0.1].' },
    {
      name: 'for',
      value: 'id|label',
      words: 'labels',
      doc: 'Make this address the destination of a subscription.',
    },
    { name: 'count', value: 'n', range: listenLimits, doc: 'Exit after this many shreds.' },
    { name: 'seconds', value: 'n', range: listenLimits, doc: 'Exit after this many seconds.' },
    { name: 'pcap', value: 'file', doc: 'Save the packets as a capture file.' },
  ],
  async run(call) {
    const [portText = ''] = call.positionals
    const port = Number(portText)
    if (!/^\d{1,5}$/.test(portText) || port > 65_535) return misuse('<port> must be 0 to 65535')
    const host = flagOf(call, 'host') ?? '127.0.0.1'
    try {
      const socket = await UdpSocket.open({ host, port, bufferBytes })
      const ready = await register(call, host, socket.port)
      if (ready.ok) return await listen(call, socket)
      socket.close()
      return ready
    } catch (error) {
      return refusedFault(error)
    }
  },
}

/** With --for: sets this socket as the destination; the challenge will prove it. */
async function register(call: Call, host: string, port: number): Promise<Outcome<unknown>> {
  const ref = flagOf(call, 'for')
  if (ref === undefined) return accept(null)
  const address = isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`
  return withStore<Subscription>(call, async (_store, changes) =>
    changes.setDestination(ref, address, byOf(call)),
  )
}

async function listen(call: Call, socket: UdpSocket): Promise<Outcome<Report>> {
  const count = numberOf(call, 'count', Number.POSITIVE_INFINITY)
  const seconds = numberOf(call, 'seconds', Number.POSITIVE_INFINITY)
  const report: Print = (json, text) =>
    process.stdout.write(`${isJson(call) ? JSON.stringify(json) : text}\n`)
  const file = flagOf(call, 'pcap')
  const capture = file === undefined ? null : openSync(file, 'w')
  if (capture !== null) writeSync(capture, pcapHeader())
  const tally = new ShredTally()
  report({ listening: socket.port }, `listening on UDP port ${socket.port}`)
  let finish = () => {}
  const finished = new Promise<void>((done) => {
    finish = done
  })
  socket.onMessage((packet, from, port) => {
    if (isChallenge(packet)) {
      socket.sendTo(packet, from, port)
      return report({ challenge: 'answered' }, 'challenge answered')
    }
    const timeMs = performance.timeOrigin + performance.now()
    tally.add(packet, timeMs)
    if (capture !== null) writeSync(capture, pcapRecord({ timeMs, payload: packet }, socket.port))
    if (tally.shreds >= count) finish()
  })
  const reporting = setInterval(rateReporter(tally, report), reportMs)
  const timer = setTimeout(finish, Math.min(seconds * 1000, 2 ** 31 - 1))
  process.once('SIGINT', finish)
  await finished
  process.removeListener('SIGINT', finish)
  clearInterval(reporting)
  clearTimeout(timer)
  socket.close()
  if (capture !== null) closeSync(capture)
  const { shreds, bytes, duplicates, flawed, late } = tally
  return accept({
    json: { shreds, bytes, duplicates, flawed, late },
    text: `${shreds} shreds, ${bytes} bytes, ${duplicates} duplicates, ${flawed} invalid`,
  })
}

type Print = (json: Readonly<Record<string, unknown>>, text: string) => void

/** Prints, once a second, the rate and each finished slot with its missing shreds. */
function rateReporter(tally: ShredTally, print: Print): () => void {
  const before = { shreds: 0, bytes: 0 }
  return () => {
    for (const slot of tally.takeFinished()) reportSlot(slot, print)
    const { shreds, bytes, duplicates, flawed } = tally
    const rate = shreds - before.shreds
    const megabits = ((bytes - before.bytes) * 8) / 1e6
    Object.assign(before, { shreds, bytes })
    print(
      { shredsPerSecond: rate, megabitsPerSecond: megabits, duplicates, flawed },
      `${rate}/s  ${megabits.toFixed(2)} Mbit/s  duplicates ${duplicates}  invalid ${flawed}`,
    )
  }
}

function reportSlot(tallied: SlotTally, print: Print): void {
  const { slot, data, code, dataEnd, duplicates, firstMs, lastMs } = tallied
  const missing = dataEnd - data
  const spanMs = lastMs - firstMs
  print(
    { slot, data, code, missing, duplicates, spanMs },
    `slot ${slot}  data ${data}  code ${code}  missing ${missing}  ` +
      `duplicates ${duplicates}  first to last ${spanMs.toFixed(1)} ms`,
  )
}

const rateDefault = 5000
const replayLimits = '1..1000000'
/** Packets are sent in batches of this duration. */
const sliceMs = 5

interface ReplayTarget {
  readonly host: string
  readonly port: number
}

export const replayShredsVerb: Verb = {
  words: ['shreds', 'replay'],
  summary: 'Send the datagrams of a capture file (pcap) to the ingest port.',
  examples: ['shreds replay shreds.pcap --rate 5000'],
  positionals: [{ name: 'pcap', doc: 'Capture file, for example of sluice shreds listen --pcap.' }],
  flags: flagTable(`
    --to <ip:port>       Where to [the ingest port of the data folder].
    --rate <n ${replayLimits}>   Packets per second [${rateDefault}].
    --times <n ${replayLimits}>  How often the whole file is sent [1].`),
  async run(call) {
    const path = resolve(call.positionals[0] ?? '')
    if (!existsSync(path)) return refuse('not-found', 'no-file', `there is no file ${path}`)
    const packets = readPcap(readFileSync(path))
    if (packets === null) return refuse('invalid', 'no-pcap', `${path} is not a pcap file`)
    const rate = numberOf(call, 'rate', rateDefault)
    const times = numberOf(call, 'times', 1)
    const target = targetOf(flagOf(call, 'to'), call.loaded.config)
    if (target === null) return misuse('--to must be written as 127.0.0.1:20000')
    const payloads = packets.map(({ payload }) => payload)
    return playPackets(payloads, { target, rate, times }).catch(refusedFault)
  },
}

async function playPackets(
  payloads: readonly Uint8Array[],
  { target, rate, times }: { target: ReplayTarget; rate: number; times: number },
): Promise<Outcome<Report>> {
  const host = target.host.includes(':') ? '::' : '0.0.0.0'
  const socket = await UdpSocket.open({ host, port: 0 })
  const total = payloads.length * times
  const startedMs = performance.now()
  let sent = 0
  let failed = 0
  while (sent < total) {
    const due = Math.min(total, Math.ceil(((performance.now() - startedMs) * rate) / 1000))
    for (; sent < due; sent += 1)
      socket.sendTo(payloads[sent % payloads.length]!, target.host, target.port, (code) => {
        if (code !== null) failed += 1
      })
    await new Promise((done) => setTimeout(done, sliceMs))
  }
  socket.close()
  const seconds = (performance.now() - startedMs) / 1000
  return accept({
    json: { sent, failed, seconds },
    text: `${sent} datagrams sent in ${seconds.toFixed(1)} s, ${failed} failed`,
  })
}

function targetOf(text: string | undefined, { data, shredstream }: Config): ReplayTarget | null {
  if (text !== undefined) {
    const endpoint = parseEndpoint(text)
    return endpoint && { host: formatAddress(endpoint.address), port: endpoint.port }
  }
  const { host, port } = readEndpoints(data)?.shredstream ?? shredstream
  return { host, port }
}
