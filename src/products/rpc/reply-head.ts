// Builds the response headers of the rpc endpoint.

import { ResponseHead } from '../../base/transport/reply.ts'
import type { Verdict } from '../../customers/quota/budget.ts'

const CORS_ANY = { 'access-control-allow-origin': '*' }
const CORS_AGE_SECS = 86_400

/** On every answer, as on Solana's own server. */
const plainHead = ResponseHead.of({ 'content-type': 'application/json; charset=utf-8' })

/** With CORS headers; only browsers send an Origin, so only they get them. */
const browserHead = ResponseHead.of({
  'content-type': 'application/json; charset=utf-8',
  ...CORS_ANY,
  'access-control-expose-headers': 'ratelimit, ratelimit-policy, retry-after, x-sluice-source',
})

/** First headers of every answer to this request. */
export function baseHead(request: { readonly origin: string } | null): ResponseHead {
  return request === null || request.origin === '' ? plainHead : browserHead
}

export const preflightHead = ResponseHead.of({
  ...CORS_ANY,
  'access-control-allow-methods': 'POST, OPTIONS',
  'access-control-allow-headers': 'content-type, solana-client, x-token, authorization, x-api-key',
  'access-control-max-age': String(CORS_AGE_SECS),
})

/** Heads that were built last, each at the place that its numbers name; a power of two. */
const KEPT_HEADS = 256
interface KeptHead {
  readonly base: ResponseHead
  readonly limit: number
  readonly windowSecs: number
  readonly remaining: number
  readonly resetSecs: number
  readonly head: ResponseHead
}
const kept = new Array<KeptHead | null>(KEPT_HEADS).fill(null)

/** Adds RateLimit-Policy and RateLimit of the IETF draft: credits of the plan, and those left.
 *  Most calls have the numbers of one before them, and so its text. */
export function rateHead(base: ResponseHead, verdict: Verdict): ResponseHead {
  const { limit, windowSecs, remaining, resetSecs } = verdict
  const at = (remaining ^ (resetSecs << 4) ^ (limit << 2)) & (KEPT_HEADS - 1)
  const last = kept[at]!
  if (
    last !== null &&
    last.remaining === remaining &&
    last.resetSecs === resetSecs &&
    last.limit === limit &&
    last.windowSecs === windowSecs &&
    last.base === base
  )
    return last.head
  const policy = `ratelimit-policy: "credits";q=${limit};w=${windowSecs}`
  const rate = `ratelimit: "credits";r=${remaining};t=${resetSecs}`
  const head = base.andLines(`${policy}\r\n${rate}`)
  kept[at] = { base, limit, windowSecs, remaining, resetSecs, head }
  return head
}
