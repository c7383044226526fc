// `sluice tips`: shows what the TPU Sender accepted, the outcomes, and rejections by reason.
// Queries the running server through the operator socket.
import { accept, refuse } from '../../base/errors.ts'
import { askServer } from './ask-server.ts'
import { recordOf, tableOf, timeOf } from './output.ts'
import { numberOf, type Verb } from './verb.ts'

/** As the server reports it; counts are since its start. */
interface TipsReport {
  readonly accepted: number
  readonly duplicates: number
  readonly landed: number
  readonly expired: number
  readonly failed: number
  readonly tipLamports: number
  readonly rejected: Readonly<Record<string, number>>
  readonly last: readonly {
    readonly receivedAtMs: number
    readonly signature: string
    readonly feePayer: string
    readonly tipAccount: string
    readonly lamports: string
    readonly outcome: string
    readonly reason: string
    readonly landedSlot: number
  }[]
}

const lastMax = 1_000

export const tipsVerb: Verb = {
  words: ['tips'],
  summary: 'Show what the TPU Sender accepted, rejected by reason, and saw land.',
  examples: ['tips --last 50'],
  flags: [
    {
      name: 'last',
      value: 'n',
      range: [0, lastMax],
      doc: `Outcomes to show, at most ${lastMax} [20].`,
    },
  ],
  async run(call) {
    const { data } = call.loaded.config
    const answer = await askServer(data, 'tips', { count: numberOf(call, 'last', 20) })
    if (!answer.ok)
      return answer.reason === 'no-server'
        ? refuse('unavailable', 'no-server', `no server runs on ${data}`)
        : refuse('unavailable', 'no-answer', answer.message)
    if (answer.value === null)
      return refuse('unavailable', 'no-tpu', 'the TPU Sender is disabled on this server')
    // Reason for the cast: the server is of the same build.
    const report = answer.value as TipsReport
    return accept({ json: report, text: textOf(report) })
  },
}

function textOf(report: TipsReport): string {
  const { accepted, landed, expired, failed, duplicates, tipLamports, rejected, last } = report
  const reasons = Object.entries(rejected).filter(([, times]) => times > 0)
  const summary = recordOf([
    ['accepted', String(accepted)],
    ['landed', accepted === 0 ? '0' : `${landed} (${((100 * landed) / accepted).toFixed(1)} %)`],
    ['expired', String(expired)],
    ['failed', String(failed)],
    ['duplicates', String(duplicates)],
    ['tips landed', `${tipLamports} lamports`],
    ['rejected', reasons.map(([reason, times]) => `${reason} ${times}`).join(', ') || '0'],
  ])
  const head = ['received', 'outcome', 'reason', 'lamports', 'slot', 'fee payer', 'signature']
  const rows = last.map((row) => [
    timeOf(row.receivedAtMs),
    row.outcome,
    row.reason,
    row.lamports,
    row.landedSlot === 0 ? '' : String(row.landedSlot),
    row.feePayer,
    row.signature,
  ])
  return `${summary}\n\n${tableOf(head, rows, 'No outcomes yet.')}`
}
