// Posts signed bodies to a receiver of the operator's: HTTPS unless it is on loopback, no
// redirects, a deadline, and an HMAC over the time and the body. It sends once: whoever calls it
// keeps what is not confirmed and retries. The address may contain a key: no error contains more
// of it than its origin.
import { createHmac } from 'node:crypto'
import { isLoopback } from '../cidr.ts'
import type { Clock } from '../clock.ts'
import { Fault, messageOf } from '../errors.ts'

/** From the connection to the status. */
const answerMs = 10_000

export interface Webhook {
  readonly url: string
  readonly secret: string
}

export interface WebhookBody {
  /** The same for every attempt, so that a receiver can tell a duplicate. */
  readonly id: string
  readonly type: string
  readonly body: string
}

/** Why that is no address of a receiver; undefined when it is one. */
export function webhookProblem(address: string): string | undefined {
  const url = URL.canParse(address) ? new URL(address) : null
  if (url === null || !/^https?:$/.test(url.protocol)) return 'must be an https:// address'
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    return 'must be an https:// address: http:// is for loopback only'
  if (url.username !== '' || url.password !== '') return 'must not contain a user or password'
  return undefined
}

/** Resolves when the receiver has confirmed with a status of 200 to 299; throws a `Fault`. */
export async function postWebhook(
  { url, secret }: Webhook,
  { id, type, body }: WebhookBody,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  const time = String(Math.floor(clock.nowMs() / 1000))
  const mac = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')
  const { origin } = new URL(url)
  const response = await fetch(url, {
    method: 'POST',
    redirect: 'manual',
    headers: {
      'content-type': type,
      'idempotency-key': id,
      'sluice-timestamp': time,
      'sluice-signature': `sha256=${mac}`,
    },
    body,
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]),
  }).catch((error: unknown) => {
    throw new Fault('webhook', `${origin}: ${reasonOf(error)}`, { retryable: true })
  })
  // What it says beyond the status is not read, however long it is.
  await response.body?.cancel().catch(() => {})
  if (response.ok) return
  const what = response.status >= 300 && response.status < 400 ? ': redirects are not followed' : ''
  throw new Fault('webhook', `${origin} answered ${response.status}${what}`, { retryable: true })
}

/** The cause has what happened; the message of fetch alone is the same for everything. */
function reasonOf(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError') return 'no answer in time'
  if (!(error instanceof Error) || error.cause === undefined) return messageOf(error)
  const { code } = error.cause as NodeJS.ErrnoException
  return code ?? messageOf(error.cause)
}
