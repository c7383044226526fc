// `sluice shreds`: shows the live state of ShredStream, through the operator socket.
// Rates are the difference of two samples, a second apart.
import { resolve } from 'node:path'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { askServer } from './ask-server.ts'
import { recordOf, tableOf, timeOf } from './output.ts'
import { type Call, hasSwitch, isJson, type Report, type Verb } from './verb.ts'

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
  const answer = await askServer(resolve(loaded.config.data), 'shreds')
  if (!answer.ok) {
    const advice = answer.reason === 'no-server' ? ': start it with npm start' : ''
    return refuse('unavailable', 'no-answer', `${answer.message}${advice}`)
  }
  if (answer.value === null) return refuse('rejected', 'off', 'shredstream.enabled is false')
  return accept(answer.value as ShredsReport)
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
