// The certificate of a gateway's TCP endpoints, which is swapped for another one while it runs.
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { copyPair, makePair, type PairFiles } from '../testkit/certificates.ts'
import type { Server } from '../testkit/server.ts'

/** For so long the key that is there is not that of the certificate, as while files are copied. */
const copyMs = 300

export class Certificates {
  /** As a gateway is configured. */
  readonly files: PairFiles
  /** Of programs that check the certificate: they know both. */
  readonly environment: Readonly<Record<string, string>>
  #pairs: readonly [PairFiles, PairFiles]

  constructor(folder: string) {
    const pairs = ['first', 'second'].map((name) => makePair(folder, name))
    this.#pairs = [pairs[0]!, pairs[1]!]
    this.files = { certPath: join(folder, 'used.crt'), keyPath: join(folder, 'used.key') }
    copyPair(this.#pairs[0], this.files)
    const authorities = join(folder, 'authorities.crt')
    writeFileSync(authorities, pairs.map(({ certPath }) => readFileSync(certPath)).join(''))
    this.environment = { NODE_EXTRA_CA_CERTS: authorities, NODE_TLS_REJECT_UNAUTHORIZED: '1' }
  }

  swap(): void {
    const [old, next] = this.#pairs
    this.#pairs = [next, old]
    copyFileSync(next.keyPath, this.files.keyPath)
    setTimeout(() => copyFileSync(next.certPath, this.files.certPath), copyMs)
  }

  /** `ok` when new connections to every endpoint get the certificate that is there now. */
  async shownBy({ doors }: Server): Promise<string> {
    const name = this.#pairs[0].certPath.endsWith('first.crt') ? 'first' : 'second'
    const ports = Object.entries(doors).filter(([, { tls }]) => tls)
    const shown = await Promise.all(
      ports.map(async ([endpoint, { port }]) => [endpoint, await nameOf(port)] as const),
    )
    const old = shown.filter(([, one]) => one !== name).map(([endpoint]) => endpoint)
    return old.length === 0 ? 'ok' : `an old certificate at ${old.join(', ')}`
  }
}

/** Of the certificate that a new connection gets. */
function nameOf(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
    socket.once('error', reject)
    socket.once('secureConnect', () => {
      resolve(String(socket.getPeerCertificate().subject.CN))
      socket.destroy()
    })
  })
}
