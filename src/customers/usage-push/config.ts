// The configuration of usage that is pushed.
import { group, integer, text, type Values } from '../../base/fields.ts'
import { webhookProblem } from '../../base/transport/webhook.ts'

const secretCharsMin = 16

const pushSection = group('Usage records for a billing system: at least once, each with an id.', {
  url: text({
    initial: '',
    secret: 'after-origin',
    doc: 'Receiver of the records (POST, NDJSON): https, or http on loopback; empty: none.',
    check: (value) => (value === '' ? undefined : webhookProblem(value)),
  }),
  secret: text({
    initial: '',
    secret: true,
    doc: 'Key of the HMAC-SHA-256 with which requests to the receiver are signed.',
    check: (value) =>
      value === '' || value.length >= secretCharsMin
        ? undefined
        : `must have at least ${secretCharsMin} characters`,
  }),
  file: text({
    initial: '',
    doc: 'File that the records are appended to, instead of a receiver; empty: none.',
  }),
  everyMs: integer({
    initial: 5_000,
    min: 100,
    max: 3_600_000,
    unit: 'ms',
    doc: 'Time between two pushes.',
  }),
  rowsMax: integer({
    initial: 100_000,
    min: 1,
    max: 1_000_000,
    doc: 'Rows (one per subscription, window and day) kept on disk while the receiver is away.',
  }),
})

export const usageSection = group('Usage of customers.', { push: pushSection })

export type UsagePushSection = Values<typeof pushSection.fields>

export function isPushed({ url, file }: UsagePushSection): boolean {
  return url !== '' || file !== ''
}

/** Problems over several fields, one sentence each. */
export function checkUsagePush({ url, secret, file }: UsagePushSection): string[] {
  if (url !== '' && file !== '') return ['usage.push.url and usage.push.file are set: set one']
  return url !== '' && secret === ''
    ? ['usage.push.url is set: set usage.push.secret, with which requests to it are signed']
    : []
}
