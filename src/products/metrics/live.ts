// Serves the live pages: GET /live, GET / for browsers, and GET /live/solana.
// Each is three files that the build made, with their compressed copies, read once. The pages have
// no data of their own: they ask the endpoint like any other client. Their policy allows nothing
// from elsewhere and no markup from script (Trusted Types).
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { packageRoot } from '../../base/package-root.ts'
import { codingOf, Reply, ResponseHead } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import type { Page } from './config.ts'

/** How each file is stored, beside its plain form. */
const stored = ['br', 'gzip'] as const

interface Served {
  readonly etag: string
  readonly contentType: string
  readonly bodies: Readonly<Record<'identity' | (typeof stored)[number], Buffer>>
}

const contentTypes: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=UTF-8',
  css: 'text/css; charset=UTF-8',
}

/** A Host header that may be repeated in a header of ours. */
const plainHost = /^[\w.:[\]-]{1,255}$/

/** The pages by the names of their files. */
const pages = ['page', 'solana'] as const
export type PageName = (typeof pages)[number]

export class LivePage {
  readonly mode: Exclude<Page, 'off'>
  readonly #pages: ReadonlyMap<PageName, Served>
  readonly #files: ReadonlyMap<string, Served>

  constructor(mode: Exclude<Page, 'off'>) {
    const folder = join(packageRoot(), 'dist', 'src', 'products', 'metrics', 'live')
    const read = (name: PageName) => {
      const text = readFileSync(join(folder, `${name}.html`), 'utf8')
      return pageOf(text.replace('data-page="full"', `data-page="${mode}"`))
    }
    this.mode = mode
    this.#pages = new Map(pages.map((name) => [name, read(name)]))
    const names = readdirSync(folder).filter((name) => /^app-\w+\.(js|css)$/.test(name))
    this.#files = new Map(names.map((name) => [name, fileOf(folder, name)]))
  }

  page(request: Request, name: PageName = 'page'): Reply {
    const head = ResponseHead.of({
      'content-type': 'text/html; charset=UTF-8',
      'content-security-policy': policyFor(request.header('host')),
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cache-control': 'no-cache',
      vary: 'accept, accept-encoding',
    })
    return reply(request, this.#pages.get(name)!, head)
  }

  /** A script or style by its name; null for any other. */
  file(request: Request, name: string): Reply | null {
    const file = this.#files.get(name)
    if (file === undefined) return null
    const head = ResponseHead.of({
      'content-type': file.contentType,
      'x-content-type-options': 'nosniff',
      // The name changes with the content.
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'accept-encoding',
    })
    return reply(request, file, head)
  }
}

/** True for a browser that opens an address: it prefers HTML to JSON, and this is no upgrade. */
export function prefersPage(request: Request): boolean {
  // The native server upgrades by this header alone.
  if (request.header('sec-websocket-key') !== '') return false
  const quality = (type: string) => qualityOf(request.header('accept'), type)
  return quality('text/html') > 0 && quality('text/html') >= quality('application/json')
}

/** The quality of a media type that is named in an Accept header; wildcards do not count. */
function qualityOf(accept: string, type: string): number {
  for (const part of accept.toLowerCase().split(',')) {
    const [name, ...parameters] = part.split(';').map((text) => text.trim())
    if (name !== type) continue
    const quality = parameters.find((text) => text.startsWith('q='))
    return quality === undefined ? 1 : Number(quality.slice(2)) || 0
  }
  return 0
}

function reply(request: Request, served: Served, head: ResponseHead): Reply {
  const coding = codingOf(request.header('accept-encoding'), stored)?.name ?? 'identity'
  const etag = `"${served.etag}-${coding}"`
  const tagged = head.and('etag', etag)
  if (request.header('if-none-match').includes(etag)) return new Reply(304, tagged)
  const coded = coding === 'identity' ? tagged : tagged.and('content-encoding', coding)
  return new Reply(200, coded, served.bodies[coding])
}

/** Older Safari does not count WebSockets as 'self', so the host is named where that is safe. */
function policyFor(host: string): string {
  const sockets = plainHost.test(host) ? ` ws://${host} wss://${host}` : ''
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    `connect-src 'self'${sockets}`,
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ')
}

function pageOf(text: string): Served {
  const identity = Buffer.from(text)
  return {
    etag: createHash('sha256').update(identity).digest('hex').slice(0, 12),
    contentType: '',
    bodies: { identity, br: brotliCompressSync(identity), gzip: gzipSync(identity) },
  }
}

function fileOf(folder: string, name: string): Served {
  const read = (ending: string) => readFileSync(join(folder, name + ending))
  const [, hash = '', kind = ''] = /^app-(\w+)\.(\w+)$/.exec(name) ?? []
  return {
    etag: hash,
    contentType: contentTypes[kind] ?? '',
    bodies: { identity: read(''), br: read('.br'), gzip: read('.gz') },
  }
}
