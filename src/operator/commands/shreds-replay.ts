// `sluice shreds replay`: sends the datagrams of a capture file, like a source of shreds.
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { formatAddress } from '../../base/cidr.ts'
import { accept, Fault, type Outcome, refuse } from '../../base/errors.ts'
import { readPcap } from '../../base/transport/pcap.ts'
import { UdpSocket } from '../../base/transport/udp.ts'
import { parseEndpoint } from '../../customers/subscriptions/destination.ts'
import type { Config } from '../config/config.ts'
import { readEndpoints } from './endpoint-url.ts'
import { flagOf, flagTable, misuse, numberOf, type Report, type Verb } from './verb.ts'

const rateDefault = 5000
const limits = '1..1000000'
/** Packets are sent in batches of this duration. */
const sliceMs = 5

interface Target {
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
    --rate <n ${limits}>   Packets per second [${rateDefault}].
    --times <n ${limits}>  How often the whole file is sent [1].`),
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
    try {
      return await play(payloads, { target, rate, times })
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      return refuse('unavailable', error.kind, error.message)
    }
  },
}

async function play(
  payloads: readonly Uint8Array[],
  { target, rate, times }: { target: Target; rate: number; times: number },
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

function targetOf(text: string | undefined, { data, shredstream }: Config): Target | null {
  if (text !== undefined) {
    const endpoint = parseEndpoint(text)
    return endpoint && { host: formatAddress(endpoint.address), port: endpoint.port }
  }
  const { host, port } = readEndpoints(data)?.shredstream ?? shredstream
  return { host, port }
}
