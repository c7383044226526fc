// `sluice backup` and `sluice restore`: a copy of what the data folder alone has, made while the
// server runs, and put into an empty folder.
//
//   <copy>/backup.json        release, time, newest change, size and SHA-256 of each file
//   <copy>/registry/data.mdb  subscriptions, digests, audit table, usage, consumers: one snapshot
//   <copy>/format.json, tip-accounts.json
//
// The index, the streams and the chain are not in it: they are read again from the node.
import { createHash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import { accept, Fault, isBug, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { isCount, isText, listOf, objectOf } from '../../base/shape.ts'
import type { AuditHead } from '../../customers/subscriptions/audit.ts'
import { makeFolder, readSeenHead, writeSeenHead } from '../../customers/subscriptions/lock.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import { isoTime } from '../../customers/subscriptions/usage.ts'
import { confirm, withStore } from './registry.ts'
import type { Call, Report, Verb } from './verb.ts'
import { packageVersion } from './version.ts'

const registryFile = join('registry', 'data.mdb')
/** Beside the registry; each is copied where it exists. */
const smallFiles = ['format.json', 'tip-accounts.json']
const manifestFile = 'backup.json'
/** What a folder for a restore may have: what a server has seen, its lock, a restore cut short. */
const mayExist = new Set(['registry-head', 'lock', 'restoring', ...smallFiles])

interface Manifest {
  readonly release: string
  readonly at: string
  readonly head: AuditHead
  readonly files: readonly CopiedFile[]
}

interface CopiedFile {
  readonly name: string
  readonly bytes: number
  readonly sha256: string
}

const isManifest = objectOf({
  release: isText,
  at: isText,
  head: objectOf({ seq: isCount, hash: isText }),
  files: listOf(objectOf({ name: isText, bytes: isCount, sha256: isText })),
})

export const backupVerb: Verb = {
  words: ['backup'],
  summary: 'Copy registry, audit table, usage and tip accounts into a folder; the server may run.',
  examples: ['backup /var/backups/sluice-2026-11-17'],
  positionals: [{ name: 'folder', doc: 'A new or an empty folder.' }],
  run: (call) =>
    withStore(
      call,
      async (store) => {
        const folder = resolve(call.positionals[0]!)
        try {
          return await backUp(store, folder, resolve(call.loaded.config.data))
        } catch (error) {
          if (isBug(error)) throw error
          const message = `no copy was made in ${folder}: ${messageOf(error)}`
          return refuse('unavailable', 'not-copied', message)
        }
      },
      { isLocal: true },
    ),
}

async function backUp(store: Store, folder: string, data: string): Promise<Outcome<Report>> {
  if (existsSync(folder) && readdirSync(folder).length > 0)
    return refuse('invalid', 'not-empty', `${folder} is not empty`)
  makeFolder(join(folder, 'registry'))
  await store.copyTo(join(folder, 'registry'))
  const small = smallFiles.filter((name) => existsSync(join(data, name)))
  for (const name of small) copyFileSync(join(data, name), join(folder, name))
  const copied = await openCopy(join(folder, 'registry'))
  const head = copied.head()
  await copied.close()
  removeLocks(join(folder, 'registry'))
  const files = [registryFile, ...small].map((name) => sealed(folder, name))
  const at = isoTime(systemClock.nowMs())
  const manifest: Manifest = { release: packageVersion(), at, head, files }
  // Written last: a copy that was cut short has none, and is refused.
  writeFileSync(join(folder, manifestFile), `${JSON.stringify(manifest)}\n`)
  sealed(folder, manifestFile)
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const text = `Copied ${bytes} bytes up to change ${head.seq} to ${folder}.`
  return accept<Report>({ json: { folder, ...manifest }, text })
}

export const restoreVerb: Verb = {
  words: ['restore'],
  summary: 'Put a copy of `sluice backup` into the empty data folder of a stopped server.',
  examples: ['restore /var/backups/sluice-2026-11-17 --data ./data'],
  asks: true,
  positionals: [{ name: 'folder', doc: 'The copy.' }],
  async run(call) {
    const folder = resolve(call.positionals[0]!)
    const data = resolve(call.loaded.config.data)
    const manifest = readManifest(folder)
    if (!manifest.ok) return manifest
    const present = existsSync(data) ? readdirSync(data).filter((name) => !mayExist.has(name)) : []
    if (present.length > 0)
      return refuse('invalid', 'not-empty', `${data} is not empty: it has ${present.join(', ')}`)
    const { lockData } = await import('../../customers/subscriptions/lock.ts')
    const locked = await lockData(data)
    if (!locked.ok) return locked
    const stage = join(data, 'restoring')
    try {
      return await restore(call, { folder, data, stage, manifest: manifest.value })
    } finally {
      rmSync(stage, { recursive: true, force: true })
      await locked.value.release()
    }
  },
}

/** Everything is checked in a folder of its own before the data folder has any of it. */
async function restore(
  call: Call,
  at: {
    readonly folder: string
    readonly data: string
    readonly stage: string
    readonly manifest: Manifest
  },
): Promise<Outcome<Report>> {
  const { folder, data, stage, manifest } = at
  rmSync(stage, { recursive: true, force: true })
  makeFolder(join(stage, 'registry'))
  for (const file of manifest.files) {
    copyFileSync(join(folder, file.name), join(stage, file.name))
    if (sealed(stage, file.name).sha256 !== file.sha256)
      return refuse('invalid', 'damaged-copy', `${join(folder, file.name)} is damaged`)
  }
  const { prepareDataFormat } = await import('../topology/state.ts')
  await prepareDataFormat(stage, packageVersion())
  const copied = await openCopy(join(stage, 'registry'))
  const seen = readSeenHead(data)
  const head = copied.head()
  const audit = copied.verifyAudit()
  const isHeld = seen === null || copied.holds(seen)
  await copied.close()
  removeLocks(join(stage, 'registry'))
  if (!audit.ok) return refuse('invalid', 'damaged-copy', `the copy is broken: ${audit.problem}`)
  if (!isHeld && seen!.seq <= head.seq)
    return refuse('invalid', 'other-registry', `${folder} is a copy of another registry`)
  const lacks = isHeld ? null : { from: head.seq + 1, to: seen!.seq }
  const missing =
    lacks === null ? '' : `The copy lacks changes ${lacks.from} to ${lacks.to}: make them again.`
  const question = `${missing} Tokens that were revoked in them work again. Restore it?`
  const agreed =
    lacks === null ? accept(null) : await confirm(call, { text: question, isFinal: true })
  if (!agreed.ok) return agreed
  // The registry is the last: a folder without it is still one to restore into.
  const small = readdirSync(stage).filter((name) => name !== 'registry')
  for (const name of small) renameSync(join(stage, name), join(data, name))
  writeSeenHead(data, head)
  renameSync(join(stage, 'registry'), join(data, 'registry'))
  synced(data)
  const done = `Restored up to change ${head.seq}, of ${manifest.at}. ${missing}`.trimEnd()
  return accept({ json: { data, head, at: manifest.at, lacks }, text: done })
}

function readManifest(folder: string): Outcome<Manifest> {
  const wrong = (why: string) => refuse('invalid', 'not-a-copy', `${folder} ${why}`)
  let value: unknown
  try {
    value = JSON.parse(readFileSync(join(folder, manifestFile), 'utf8'))
  } catch (error) {
    return wrong(`has no copy of \`sluice backup\`: ${messageOf(error)}`)
  }
  if (!isManifest(value)) return wrong(`has a damaged ${manifestFile}`)
  // Reason for the cast: its shape was just checked.
  const manifest = value as Manifest
  const names = manifest.files.map(({ name }) => name)
  const isKnown = (name: string) => name === registryFile || smallFiles.includes(name)
  if (!names.includes(registryFile) || !names.every(isKnown))
    return wrong(`was made by release ${manifest.release}, which is a later one`)
  return accept(manifest)
}

async function openCopy(path: string) {
  const { openStore } = await import('../../customers/subscriptions/store.ts')
  return openStore(path, { clock: systemClock })
}

/** Of the process that opened it. */
function removeLocks(registry: string): void {
  for (const name of ['lock.mdb', 'open.lock']) rmSync(join(registry, name), { force: true })
}

/** Makes a file its owner's and durable. */
function sealed(folder: string, name: string): CopiedFile {
  const path = join(folder, name)
  chmodSync(path, 0o600)
  synced(path)
  synced(join(path, '..'))
  const content = readFileSync(path)
  const sha256 = createHash('sha256').update(content).digest('hex')
  return { name, bytes: content.length, sha256 }
}

function synced(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } catch (cause) {
    throw new Fault('backup', `${path} cannot be written: ${messageOf(cause)}`, { cause })
  } finally {
    closeSync(descriptor)
  }
}
