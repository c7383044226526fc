// The header lines of the rpc door. Thread: main. Pure.
import type { Verdict } from '../../quota/quota.ts'
import { Head } from '../../transport/reply.ts'

const CORS_ANY = { 'access-control-allow-origin': '*' }
const CORS_AGE_SECS = 86_400

/** What every answer has, as Solana's own server says it. */
export const plainHead = Head.of({
  'content-type': 'application/json; charset=utf-8',
  ...CORS_ANY,
  'access-control-expose-headers': 'ratelimit, ratelimit-policy, retry-after',
})

export const unauthorizedHead = plainHead.and('www-authenticate', 'Bearer')

export const preflightHead = Head.of({
  ...CORS_ANY,
  'access-control-allow-methods': 'POST, OPTIONS',
  'access-control-allow-headers': 'content-type, solana-client, x-token, authorization, x-api-key',
  'access-control-max-age': String(CORS_AGE_SECS),
})

/** RateLimit-Policy and RateLimit of the IETF draft: credits of the plan, what is left of them. */
export function rateHead(verdict: Verdict): Head {
  const { limit, windowSecs, remaining, resetSecs } = verdict
  const policy = `ratelimit-policy: "credits";q=${limit};w=${windowSecs}`
  return plainHead.andLines(`${policy}\r\nratelimit: "credits";r=${remaining};t=${resetSecs}`)
}
