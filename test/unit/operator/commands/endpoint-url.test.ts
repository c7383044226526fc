import { expect, test } from 'vitest'
import { noAnswer } from '../../../../src/operator/commands/credentials.ts'

const sentence = (error: unknown, hasCaFlag: boolean) => {
  const outcome = noAnswer('https://127.0.0.1:1', error, hasCaFlag)
  return outcome.ok ? '' : outcome.refusal.message
}

test('no answer has its reason, and a certificate that is not trusted its remedy', () => {
  const untrusted = new TypeError('fetch failed', { cause: new Error('self-signed certificate') })
  expect(sentence(untrusted, false)).toBe(
    'no answer from https://127.0.0.1:1: self-signed certificate; ' +
      'set NODE_EXTRA_CA_CERTS to the file of its certificate',
  )
  expect(sentence(untrusted, true)).toContain('name its certificate with --ca, or set NODE_EXTRA')
  const refused = new Error('connect ECONNREFUSED 127.0.0.1:1')
  expect(sentence(refused, true)).toBe(`no answer from https://127.0.0.1:1: ${refused.message}`)
})
