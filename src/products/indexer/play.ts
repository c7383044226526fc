// Serves the page at /play: type SQL, see a table and a chart.
// One document without external references; its Content-Security-Policy allows only its own script
// and style, and requests only to this endpoint. It has no data: queries send their credentials.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Reply, ResponseHead } from '../../base/transport/reply.ts'
import { DATABASE, visibleTables } from '../../indexer/catalogue.ts'

let kept: Reply | null = null

export function playReply(): Reply {
  kept ??= makeReply()
  return kept
}

function makeReply(): Reply {
  const style = read('page.css')
  const script = ['chart.js', 'page.js'].map(read).join('')
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ]
  const head = ResponseHead.of({
    'content-type': 'text/html; charset=UTF-8',
    'content-security-policy': policy.join('; '),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-cache',
  })
  // Functions: in a replacement text `$` has a meaning.
  const page = read('page.html')
    .replace('<style></style>', () => `<style>${style}</style>`)
    .replace('<!-- tables -->', tableList)
    .replace('<script></script>', () => `<script>${script}</script>`)
  return new Reply(200, head, page)
}

function read(name: string): string {
  return readFileSync(new URL(`./play/${name}`, import.meta.url), 'utf8')
}

/** The CSP source expression of an inline element's content. */
function hashOf(content: string): string {
  return `'sha256-${createHash('sha256').update(content).digest('base64')}'`
}

/** Names and types are our own: letters, digits, `_` and brackets. */
function tableList(): string {
  const tables = visibleTables.filter(({ database }) => database === DATABASE)
  return tables
    .map(({ name, columns, key }) => {
      const newest = button(`newest rows of ${name}`, { table: name, column: key[0] ?? '' })
      const items = Object.entries(columns).map(
        ([column, type]) => `${button(column, { column })} <small>${type}</small>`,
      )
      const list = [newest, ...items].map((item) => `<li>${item}</li>`).join('\n')
      return `<details><summary>${name}</summary><ul>\n${list}\n</ul></details>`
    })
    .join('\n')
}

function button(text: string, data: Readonly<Record<string, string>>): string {
  const attributes = Object.entries(data).map(([name, value]) => ` data-${name}="${value}"`)
  return `<button type="button"${attributes.join('')}>${text}</button>`
}
