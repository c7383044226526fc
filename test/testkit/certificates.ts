// Self-signed certificates for loopback, made with the openssl command; null without openssl.
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'

export const hasOpenssl = spawnSync('openssl', ['version']).status === 0

export interface PairFiles {
  readonly certPath: string
  readonly keyPath: string
}

export function makePair(folder: string, name: string): PairFiles {
  mkdirSync(folder, { recursive: true })
  const certPath = join(folder, `${name}.crt`)
  const keyPath = join(folder, `${name}.key`)
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1']
  const names = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost']
  const files = ['-keyout', keyPath, '-out', certPath]
  execFileSync('openssl', ['req', '-x509', ...curve, '-nodes', '-days', '2', ...names, ...files], {
    stdio: 'ignore',
  })
  return { certPath, keyPath }
}

export function copyPair(from: PairFiles, to: PairFiles): void {
  copyFileSync(from.certPath, to.certPath)
  copyFileSync(from.keyPath, to.keyPath)
}
