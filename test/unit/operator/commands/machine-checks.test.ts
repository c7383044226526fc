import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { afterAll, describe, expect, test } from 'vitest'
import {
  checkCertificate,
  checkGlibc,
  checkNode,
  privateCertificate,
} from '../../../../src/operator/commands/machine-checks.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-doctor-'))
afterAll(() => rmSync(folder, { recursive: true }))
const dayMs = 86_400_000

function pair(name: string): { cert: string; key: string } | null {
  const cert = join(folder, `${name}.pem`)
  const key = join(folder, `${name}.key`)
  const args = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost`
  try {
    execFileSync('openssl', [...args.split(' '), '-keyout', key, '-out', cert], { stdio: 'ignore' })
    return { cert, key }
  } catch {
    return null
  }
}

describe('a certificate', () => {
  test('is private when no public authority signed the last of its chain', () => {
    expect(privateCertificate('')).toBe(null)
    const root = join(folder, 'root.pem')
    writeFileSync(root, `${rootCertificates[0]}\n${rootCertificates[1]}\n`)
    expect(privateCertificate(root)).toBe(null)
    const own = pair('own')
    if (own === null) return
    expect(privateCertificate(own.cert)).toBe(own.cert)
    // Its key, or a comment, may follow the chain.
    appendFileSync(own.cert, readFileSync(own.key))
    expect(privateCertificate(own.cert)).toBe(own.cert)
    appendFileSync(root, '# of the authority\n')
    expect(privateCertificate(root)).toBe(null)
  })
})

describe('doctor', () => {
  test('knows which Node is new enough', () => {
    expect(checkNode('20.19.0').state).toBe('ok')
    expect(checkNode('24.0.0').state).toBe('ok')
    expect(checkNode('20.18.3')).toMatchObject({
      state: 'fail',
      next: expect.stringMatching('20.19'),
    })
    expect(checkNode('18.20.0').state).toBe('fail')
  })

  test('knows which glibc each Node needs', () => {
    expect(checkGlibc('20.19.0', '2.34').state).toBe('ok')
    expect(checkGlibc('24.0.0', '2.38').state).toBe('ok')
    expect(checkGlibc('20.19.0', '2.31').next).toBe('use a system with glibc 2.34 or newer')
    expect(checkGlibc('24.0.0', '2.36')).toMatchObject({
      state: 'fail',
      next: 'use a system with glibc 2.38 or newer, or Node 20',
    })
  })

  test('detects a missing or broken certificate', () => {
    expect(checkCertificate({ cert: '', key: '' }, 0).state).toBe('ok')
    const broken = join(folder, 'broken.pem')
    writeFileSync(broken, 'noise')
    expect(checkCertificate({ cert: broken, key: broken }, 0).state).toBe('fail')
    expect(checkCertificate({ cert: '/absent', key: '/absent' }, 0).state).toBe('fail')
  })

  test('reports how long a certificate is valid and whether the key matches', (context) => {
    const one = pair('one')
    const other = pair('other')
    if (one === null || other === null) return context.skip('openssl is not here')
    const now = Date.now()
    expect(checkCertificate(one, now).state).toBe('ok')
    expect(checkCertificate(one, now + 20 * dayMs).state).toBe('warn')
    expect(checkCertificate(one, now + 40 * dayMs).state).toBe('fail')
    const mixed = checkCertificate({ cert: one.cert, key: other.key }, now)
    expect(mixed).toMatchObject({ state: 'fail', found: 'the key does not match' })
  })
})
