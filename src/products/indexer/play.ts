// Serves the page at /play: type SQL, see a table and a chart. Thread: main.
// One file without external references; its Content-Security-Policy allows only its own script
// and style, and requests only to this endpoint. It has no data: queries send their credentials.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { assert } from '../../base/assert.ts'
import { Head, Reply } from '../../transport/reply.ts'

let kept: Reply | null = null

export function playReply(): Reply {
  kept ??= makeReply(readFileSync(new URL('./play/page.html', import.meta.url), 'utf8'))
  return kept
}

function makeReply(page: string): Reply {
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(page, 'script')}`,
    `style-src ${hashOf(page, 'style')}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ]
  const head = Head.of({
    'content-type': 'text/html; charset=UTF-8',
    'content-security-policy': policy.join('; '),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-cache',
  })
  return new Reply(200, head, page)
}

/** The CSP source expression for the only element of that name. */
function hashOf(page: string, element: 'script' | 'style'): string {
  const content = new RegExp(`<${element}>(.*?)</${element}>`, 's').exec(page)?.[1]
  assert(content !== undefined, `the page has a ${element}`)
  return `'sha256-${createHash('sha256').update(content).digest('base64')}'`
}
