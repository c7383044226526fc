// The certificate and key of all TCP endpoints, watched and checked on change.
// Endpoints register with `onChange`; a pair that does not match is reported and never published,
// so a half-copied file cannot take an endpoint down.
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { Fault, messageOf } from '../errors.ts'
import type { Log } from '../telemetry/log.ts'

export interface TlsFiles {
  readonly certPath: string
  readonly keyPath: string
}

const WATCH_MS = 1_000

export class CertificatePair {
  readonly files: TlsFiles
  cert: Buffer
  key: Buffer
  readonly #log: Log
  readonly #listeners = new Set<() => void>()
  readonly #timer: NodeJS.Timeout
  #rejected: string | null = null

  /** Reads and checks the pair; throws a Fault that names the file at fault. */
  constructor(files: TlsFiles, log: Log) {
    this.files = files
    this.#log = log
    const { cert, key } = readPair(files)
    this.cert = cert
    this.key = key
    this.#timer = setInterval(() => this.check(), WATCH_MS).unref()
  }

  /** Calls `listener` after each change to a valid pair; returns its unsubscribe. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Checks the files now. Contents are compared, since a copy can keep its time stamp. */
  check(): void {
    try {
      const { cert, key } = readPair(this.files, this)
      this.#rejected = null
      if (cert.equals(this.cert) && key.equals(this.key)) return
      this.cert = cert
      this.key = key
      this.#log.info('certificate reloaded', { cert: this.files.certPath })
      for (const listener of this.#listeners) listener()
    } catch (error) {
      const reason = messageOf(error)
      if (reason !== this.#rejected) this.#log.warn('certificate reload failed', { reason })
      this.#rejected = reason
    }
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#listeners.clear()
  }
}

/** Reads both files; when they equal `known` the expensive check is skipped. */
function readPair(
  files: TlsFiles,
  known?: { cert: Buffer; key: Buffer },
): { cert: Buffer; key: Buffer } {
  const cert = read(files.certPath, 'tls.cert')
  const key = read(files.keyPath, 'tls.key')
  if (known !== undefined && cert.equals(known.cert) && key.equals(known.key)) return known
  try {
    createSecureContext({ cert, key })
  } catch (cause) {
    const why = `tls.cert and tls.key do not match: ${messageOf(cause)}`
    throw new Fault('tls-pair', why, { cause })
  }
  return { cert, key }
}

function read(path: string, key: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw new Fault('tls-file', `${key}: cannot read ${path}: ${messageOf(cause)}`, { cause })
  }
}
