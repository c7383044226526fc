// `sluice tip-accounts`: shows the tip accounts of the running server, else the configured ones.
// `sluice tips`: shows what the TPU Sender accepted, the outcomes, and rejections by reason.
// Queries the running server through the operator socket.
import { accept, refuse } from '../../base/errors.ts'
import type { Components } from '../topology/components.ts'
import { askServer, noServer } from './ask-server.ts'
import { recordOf, tableOf, timeOf } from './output.ts'
import { flagTable, numberOf, type Verb } from './verb.ts'

/** As the server reports it; counts are since its start. */
type TipsReport = ReturnType<NonNullable<Components['tpu']>['report']>

const lastMax = 1_000

export const tipsVerb: Verb = {
  words: ['tips'],
  api: 'read',
  summary: 'Show what the TPU Sender accepted, rejected by reason, and saw land.',
  examples: ['tips --last 50'],
  flags: flagTable(`--last <n 0..${lastMax}>  Outcomes to show, at most ${lastMax} [20].`),
  async run(call) {
    const { data } = call.loaded.config
    const answer = await askServer(data, 'tips', { count: numberOf(call, 'last', 20) })
    if (!answer.ok) return noServer(data, answer)
    if (answer.value === null)
      return refuse('unavailable', 'no-tpu', 'the TPU Sender is disabled on this server')
    // Reason for the cast: the server is of the same build.
    const report = answer.value as TipsReport
    return accept({ json: report, text: textOf(report) })
  },
}

export const tipAccountsVerb: Verb = {
  words: ['tip-accounts'],
  api: 'read',
  summary: 'Show the accounts that tips go to.',
  examples: ['tip-accounts'],
  async run({ loaded }) {
    const { data, tpu } = loaded.config
    const answer = await askServer(data, 'tip-accounts')
    if (!answer.ok && answer.reason !== 'no-server')
      return refuse('unavailable', 'no-answer', answer.message)
    const { tipAccounts } = answer.ok
      ? (answer.value as { tipAccounts: readonly string[] })
      : { tipAccounts: tpu.tipAccounts }
    if (tipAccounts.length > 0)
      return accept({ json: { tipAccounts }, text: tipAccounts.join('\n') })
    return refuse(
      'unavailable',
      'no-server',
      `tpu.tipAccounts is empty and no TPU Sender runs on ${data}; a running one creates its own`,
    )
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
