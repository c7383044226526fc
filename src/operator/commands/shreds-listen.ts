// `sluice shreds listen`: receives shreds as a customer's machine does. Answers the challenge,
// checks and counts the packets, and can save them as a capture.
import { closeSync, openSync, writeSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import { accept, Fault, type Outcome, refuse } from '../../base/errors.ts'
import { pcapHeader, pcapRecord } from '../../base/transport/pcap.ts'
import { UdpSocket } from '../../base/transport/udp.ts'
import { isChallenge } from '../../chain/solana/shred-challenge.ts'
import { ShredTally, type SlotTally } from '../../chain/solana/shred-tally.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import { byOf, withStore } from './registry.ts'
import { type Call, flagOf, isJson, misuse, numberOf, type Report, type Verb } from './verb.ts'

const bufferBytes = 32 * 1024 * 1024
const reportMs = 1000
const limits = [0, 999_999_999] as const

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
    { name: 'count', value: 'n', range: limits, doc: 'Exit after this many shreds.' },
    { name: 'seconds', value: 'n', range: limits, doc: 'Exit after this many seconds.' },
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
      if (!(error instanceof Fault)) throw error
      return refuse('unavailable', error.kind, error.message)
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
      report({ challenge: 'answered' }, 'challenge answered')
      return
    }
    const timeMs = performance.timeOrigin + performance.now()
    tally.add(packet, timeMs)
    if (capture !== null) writeSync(capture, pcapRecord({ timeMs, payload: packet }, socket.port))
    if (tally.shreds >= count) finish()
  })
  const reporter = new RateReporter(tally, report)
  const reporting = setInterval(() => reporter.report(), reportMs)
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
class RateReporter {
  readonly #tally: ShredTally
  readonly #print: Print
  #shreds = 0
  #bytes = 0

  constructor(tally: ShredTally, print: Print) {
    this.#tally = tally
    this.#print = print
  }

  report(): void {
    for (const slot of this.#tally.takeFinished()) this.#reportSlot(slot)
    const { shreds, bytes, duplicates, flawed } = this.#tally
    const rate = shreds - this.#shreds
    const megabits = ((bytes - this.#bytes) * 8) / 1e6
    this.#shreds = shreds
    this.#bytes = bytes
    this.#print(
      { shredsPerSecond: rate, megabitsPerSecond: megabits, duplicates, flawed },
      `${rate}/s  ${megabits.toFixed(2)} Mbit/s  duplicates ${duplicates}  invalid ${flawed}`,
    )
  }

  #reportSlot({ slot, data, code, dataEnd, duplicates, firstMs, lastMs }: SlotTally): void {
    const missing = dataEnd - data
    const spanMs = lastMs - firstMs
    this.#print(
      { slot, data, code, missing, duplicates, spanMs },
      `slot ${slot}  data ${data}  code ${code}  missing ${missing}  ` +
        `duplicates ${duplicates}  first to last ${spanMs.toFixed(1)} ms`,
    )
  }
}
