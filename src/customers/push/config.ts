// The configuration of usage and notices that are pushed.
import { group, integer, text, type Values } from '../../base/fields.ts'
import { webhookProblem } from '../../base/transport/webhook.ts'

const secretCharsMin = 16

/** The receiver of what is pushed. */
export function webhookFields(what: string) {
  return {
    url: text({
      initial: '',
      secret: 'after-origin',
      doc: `Receiver of ${what}: https, or http on loopback; empty: none.`,
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
  }
}

/** Whether a receiver has a secret, in one sentence where it has none. */
export function checkReceiver(key: string, { url, secret }: { url: string; secret: string }) {
  return url !== '' && secret === ''
    ? [`${key}.url is set: set ${key}.secret, with which requests to it are signed`]
    : []
}

const pushSection = group('Usage records for a billing system: at least once, each with an id.', {
  ...webhookFields('the records (POST, NDJSON)'),
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
export function checkUsagePush(section: UsagePushSection): string[] {
  const { url, file } = section
  if (url !== '' && file !== '') return ['usage.push.url and usage.push.file are set: set one']
  return checkReceiver('usage.push', section)
}

export const webhooksSection = group(
  'Notices of quotas that are used up and of subscriptions that end: at least once, with an id.',
  {
    ...webhookFields('the notices (POST, JSON, one each)'),
    quotaPercent: integer({
      initial: 80,
      min: 1,
      max: 100,
      unit: '%',
      doc: 'Part of the credits of 30 days at which the first notice is sent; another at 100 %.',
    }),
    endDays: integer({
      initial: 7,
      min: 1,
      max: 60,
      unit: 'days',
      doc: 'Time before the end of a subscription at which a notice is sent; another at its end.',
    }),
  },
)

export type WebhooksSection = Values<typeof webhooksSection.fields>
