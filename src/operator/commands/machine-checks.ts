// Checks the machine for `sluice doctor`: versions, limits, disk, clock, certificate.
// Each check returns what it found and, when that is not good, what to do next.
import { execFile } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { accessSync, constants, existsSync, readFileSync, statfsSync, statSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname, resolve } from 'node:path'
import { rootCertificates } from 'node:tls'
import { promisify } from 'node:util'
import { messageOf } from '../../base/errors.ts'

export type CheckState = 'ok' | 'warn' | 'fail'

export interface Check {
  readonly name: string
  readonly state: CheckState
  readonly found: string
  /** What to do next; empty when all is well. */
  readonly next: string
}

const NODE_MIN = [20, 19] as const
/** The newest symbol version that the native packages need: LMDB's, and that of the HTTP server,
 *  whose binaries from Node 22 on are newer. */
const GLIBC_MIN = [2, 34] as const
const GLIBC_MIN_NODE_22 = [2, 38] as const
const FILES_MIN = 1024
const FILES_WANTED = 65_536
const DISK_BYTES_MIN = 256 * 2 ** 20
const DISK_BYTES_WANTED = 2 * 2 ** 30
const MEMORY_BYTES_WANTED = 1.5 * 2 ** 30
const CERTIFICATE_DAYS_WANTED = 14
const DAY_MS = 86_400_000
/** An earlier time is wrong: this software did not exist yet. */
const CLOCK_MIN_MS = Date.UTC(2025, 0, 1)
const CLOCK_TIMEOUT_MS = 2_000

export function good(name: string, found: string): Check {
  return { name, state: 'ok', found, next: '' }
}

export function bad(name: string, state: 'warn' | 'fail', found: string, next: string): Check {
  return { name, state, found, next }
}

export async function machineChecks(config: {
  data: string
  tls: { cert: string; key: string }
}): Promise<Check[]> {
  return [
    checkNode(process.versions.node),
    checkGlibc(process.versions.node),
    checkFiles(),
    checkMachine(),
    checkFolder(resolve(config.data)),
    checkDisk(resolve(config.data)),
    await checkClock(Date.now()),
    checkCertificate(config.tls, Date.now()),
  ]
}

export function checkNode(version: string): Check {
  if (isAtLeast(version, NODE_MIN)) return good('node', version)
  return bad('node', 'fail', version, `install Node ${NODE_MIN.join('.')} or newer`)
}

export function checkGlibc(node: string, version = glibcVersion()): Check {
  const least = isAtLeast(node, [22, 0]) ? GLIBC_MIN_NODE_22 : GLIBC_MIN
  if (version === undefined)
    return bad('glibc', 'fail', 'none', 'use a glibc system: the native packages need it')
  if (isAtLeast(version, least)) return good('glibc', version)
  const other = isAtLeast(version, GLIBC_MIN) ? ', or Node 20' : ''
  const next = `use a system with glibc ${least.join('.')} or newer${other}`
  return bad('glibc', 'fail', version, next)
}

function glibcVersion(): string | undefined {
  // Reason for the cast: the report's type is plain object.
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return report.header?.glibcVersionRuntime
}

function checkFiles(): Check {
  if (!existsSync('/proc/self/limits')) return good('open files', 'unknown')
  const line = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))
  const soft = line?.[1] === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(line?.[1] ?? 0)
  const next = `run ulimit -n ${FILES_WANTED}, or LimitNOFILE=${FILES_WANTED} in the unit`
  if (soft < FILES_MIN) return bad('open files', 'fail', String(soft), next)
  if (soft < FILES_WANTED) return bad('open files', 'warn', String(soft), next)
  return good('open files', String(soft))
}

function checkMachine(): Check {
  const cores = availableParallelism()
  const found = `${cores} cores, ${gibibytes(totalmem())}`
  if (cores < 2) return bad('machine', 'warn', found, 'give it at least 2 cores')
  if (totalmem() < MEMORY_BYTES_WANTED)
    return bad('machine', 'warn', found, 'give it at least 1.5 GiB of memory')
  return good('machine', found)
}

function checkFolder(data: string): Check {
  const at = nearestExisting(data)
  try {
    accessSync(at, constants.W_OK | constants.X_OK)
  } catch {
    const next = `let this user write to ${at}, or set another folder with --data`
    return bad('data folder', 'fail', `${at} is not writable`, next)
  }
  if (at !== data) return good('data folder', `${data} will be created`)
  if ((statSync(data).mode & 0o077) === 0) return good('data folder', data)
  return bad('data folder', 'warn', `${data} is accessible to other users`, `run chmod 700 ${data}`)
}

function checkDisk(data: string): Check {
  const { bavail, bsize } = statfsSync(nearestExisting(data))
  const free = bavail * bsize
  const found = `${gibibytes(free)} free`
  if (free < DISK_BYTES_MIN) return bad('disk', 'fail', found, 'free space or move the data folder')
  if (free < DISK_BYTES_WANTED) return bad('disk', 'warn', found, 'free some space soon')
  return good('disk', found)
}

async function checkClock(nowMs: number): Promise<Check> {
  const found = new Date(nowMs).toISOString()
  if (nowMs < CLOCK_MIN_MS) return bad('clock', 'fail', found, 'set the clock: quotas depend on it')
  if (existsSync('/run/systemd/timesync/synchronized'))
    return good('clock', `${found}, synchronized`)
  try {
    const asked = ['show', '-p', 'NTPSynchronized', '--value']
    const { stdout } = await promisify(execFile)('timedatectl', asked, {
      timeout: CLOCK_TIMEOUT_MS,
    })
    if (stdout.trim() === 'yes') return good('clock', `${found}, synchronized`)
    return bad(
      'clock',
      'warn',
      `${found}, not synchronized`,
      'run timedatectl set-ntp true, or chrony',
    )
  } catch {
    const next = 'check that chrony or systemd-timesyncd runs here or on the host'
    return bad('clock', 'warn', `${found}, synchronization unknown`, next)
  }
}

export function checkCertificate(tls: { cert: string; key: string }, nowMs: number): Check {
  if (tls.cert === '') return good('certificate', 'none: plaintext on loopback')
  try {
    const certificate = new X509Certificate(readFileSync(tls.cert))
    if (!certificate.checkPrivateKey(createPrivateKey(readFileSync(tls.key))))
      return bad('certificate', 'fail', 'the key does not match', 'set its own key')
    const days = Math.floor((Date.parse(certificate.validTo) - nowMs) / DAY_MS)
    if (days < 0) return bad('certificate', 'fail', `expired ${-days} days ago`, 'renew it')
    if (days < CERTIFICATE_DAYS_WANTED)
      return bad(
        'certificate',
        'warn',
        `expires in ${days} days`,
        'renew it; it is reloaded at once',
      )
    return good('certificate', `${days} days left`)
  } catch (error) {
    return bad('certificate', 'fail', messageOf(error), 'set readable PEM files')
  }
}

function nearestExisting(path: string): string {
  let at = path
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at)
  return at
}

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [haveMajor = 0, haveMinor = 0] = version.split('.').map(Number)
  return haveMajor > major || (haveMajor === major && haveMinor >= minor)
}

function gibibytes(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`
}

/** The path of a certificate that no public authority signed; null for another, or none. */
export function privateCertificate(path: string): string | null {
  if (path === '') return null
  const text = readFileSync(path, 'utf8')
  // Text and keys may be between the certificates of a PEM file, and after them.
  const chain = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g)
  const certificate = new X509Certificate(chain?.at(-1) ?? text)
  const isPublic = rootCertificates.some((pem) => certificate.checkIssued(new X509Certificate(pem)))
  return isPublic ? null : path
}
