// The header lines of the rpc door. Thread: main. Pure.
import type { Verdict } from '../../quota/quota.ts'
import { Head } from '../../transport/reply.ts'

const CORS_ANY = { 'access-control-allow-origin': '*' }
const CORS_AGE_SECS = 86_400

/** What every answer has, as Solana's own server says it. */
const plainHead = Head.of({ 'content-type': 'application/json; charset=utf-8' })

/** What browsers want besides; only they state an Origin, so only they get the lines. */
const browserHead = Head.of({
  'content-type': 'application/json; charset=utf-8',
  ...CORS_ANY,
  'access-control-expose-headers': 'ratelimit, ratelimit-policy, retry-after',
})

/** The lines that every answer to this request begins with. */
export function baseHead(request: { readonly origin: string } | null): Head {
  return request === null || request.origin === '' ? plainHead : browserHead
}

export const preflightHead = Head.of({
  ...CORS_ANY,
  'access-control-allow-methods': 'POST, OPTIONS',
  'access-control-allow-headers': 'content-type, solana-client, x-token, authorization, x-api-key',
  'access-control-max-age': String(CORS_AGE_SECS),
})

/** RateLimit-Policy and RateLimit of the IETF draft: credits of the plan, what is left of them. */
export function rateHead(base: Head, verdict: Verdict): Head {
  const { limit, windowSecs, remaining, resetSecs } = verdict
  const policy = `ratelimit-policy: "credits";q=${limit};w=${windowSecs}`
  return base.andLines(`${policy}\r\nratelimit: "credits";r=${remaining};t=${resetSecs}`)
}
