// `sluice audit ...`: shows and verifies the audit table.
import { accept } from '../../base/errors.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import { tableOf } from './output.ts'
import { notFound, refSpec, withStore } from './registry.ts'
import { flagTable, numberOf, type Report, type Verb } from './verb.ts'

const ENTRIES_INITIAL = 100

export const auditVerbs: readonly Verb[] = [
  {
    words: ['audit', 'show'],
    api: 'read',
    summary: 'Show the newest changes, of one subscription or of all.',
    examples: ['audit show', 'audit show acme --limit 20'],
    positionals: [{ ...refSpec, optional: true }],
    flags: flagTable(`
    --limit <n 1..1000000>  How many of the newest [${ENTRIES_INITIAL}].`),
    async run(call) {
      const [ref] = call.positionals
      const limit = numberOf(call, 'limit', ENTRIES_INITIAL)
      return withStore(call, (store) => {
        const isNamed = ({ id, label }: Subscription) => id === ref || label === ref
        const subjectOf = (name: string) => store.find(name) ?? store.operators().findLast(isNamed)
        const subject = ref === undefined ? undefined : subjectOf(ref)?.id
        if (ref !== undefined && subject === undefined) return notFound(ref)
        const entries = [...store.audit(subject === undefined ? {} : { subject })].slice(-limit)
        const rows = entries.map((entry) => [
          String(entry.seq),
          entry.at,
          entry.who,
          entry.what,
          entry.subject,
          entry.reason,
        ])
        const head = ['seq', 'at', 'who', 'what', 'subject', 'reason']
        return accept({ json: { entries }, text: tableOf(head, rows, 'No changes yet.') })
      })
    },
  },
  {
    words: ['audit', 'verify'],
    api: 'read',
    summary: 'Verify the hash chain and that the records match it; exit 1 if not.',
    examples: ['audit verify'],
    run: (call) =>
      withStore(call, (store) => {
        const report = store.verifyAudit()
        const advice = 'Keep this folder unchanged and restore the last backup to another folder.'
        const text = report.ok
          ? `The chain of ${report.entries} entries is intact. Head: ${report.head}`
          : `BROKEN: ${report.problem}. ${advice}`
        return accept<Report>({ json: report, text, exit: report.ok ? 0 : 1 })
      }),
  },
]
