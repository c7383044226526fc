// Renders the declared keys for readers: docs/CONFIG.md and the key list of `serve --help`.
// Thread: main. Pure; `npm run docs` and `sluice config docs` call it.
import type { Field, Fields, Group, Many, Named, Node } from '../base/fields.ts'
import { leaves } from './tree.ts'

/** The environment variable of a key: `rpc.bodyBytesMax` is SLUICE_RPC__BODY_BYTES_MAX. */
export function variableOf(key: string): string {
  const words = key.split('.').map((word) => word.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2'))
  return `SLUICE_${words.join('__').toUpperCase()}`
}

/** One line per key, for a terminal. */
export function renderConfigHelp(fields: Fields): string {
  const rows = [...leaves(fields)].map(({ key, field }) => ({
    flag: `  --${key}`,
    text: `${field.doc} [${helpDefault(field)}]`,
  }))
  const width = Math.max(...rows.map((row) => row.flag.length))
  return rows.map((row) => `${row.flag.padEnd(width)}  ${row.text}`).join('\n')
}

/** The whole of docs/CONFIG.md. */
export function renderConfigDocs(fields: Fields): string {
  const general: [string, Field<unknown>][] = []
  const sections: string[] = []
  for (const [key, node] of Object.entries(fields) as [string, Node][])
    if (node.node === 'field') general.push([key, node])
    else sections.push(...renderSection(key, node))
  const head = renderTable(
    ['key', 'default', 'takes', 'meaning'],
    general.map(([key, field]) => rowOf(key, field)),
  )
  return `${[INTRODUCTION, '## General', head, ...sections].join('\n\n')}\n`
}

const INTRODUCTION = `# Configuration

Made by \`npm run docs\` from the declarations in the code; do not edit.

Every key can be set in four places; later wins:

1. the default below,
2. a YAML file named by \`--config path\` or \`SLUICE_CONFIG\`,
3. an environment variable: \`SLUICE_\`, then the key in capitals with \`__\` for each dot and
   \`_\` between words: \`tls.cert\` is \`SLUICE_TLS__CERT\`,
   \`allowPlaintext\` is \`SLUICE_ALLOW_PLAINTEXT\`,
4. a flag: \`npm start -- --tls.cert cert.pem\`.

A size, time or rate is a plain number of the unit named below, or text with a unit of its own:
\`16MiB\`, \`64kB\`, \`250ms\`, \`1h30m\`, \`7d\`, \`250Mbit/s\`.
In variables and flags a list is separated by commas; \`<n>\` counts the entries of a list from 0.
An unknown key or a bad value stops the start; all problems are told at once.
\`sluice config check\` does the same without starting; \`sluice config print\` shows the values in
force and who set them, with secrets hidden.`

function renderSection(key: string, node: Group | Named | Many): string[] {
  if (node.node === 'group') return renderKeys(`## ${key}`, node.doc, `${key}.`, node)
  if (node.node === 'many') return renderKeys(`## ${key}`, node.doc, `${key}.<n>.`, node.of)
  const builtIn = Object.keys(node.initial)
  const parts = renderKeys(
    `## ${key}`,
    node.doc,
    `${key}.<${node.placeholder}>.`,
    node.of,
    node.initial,
  )
  if (builtIn.length === 0) return parts
  const names = builtIn.map((name) => `\`${name}\``).join(', ')
  parts.splice(
    2,
    0,
    `Built in: ${names}. A section of the same name changes the keys that it sets.`,
  )
  return parts
}

function renderKeys(
  title: string,
  doc: string,
  prefix: string,
  of: Group,
  builtIn: Readonly<Record<string, unknown>> = {},
): string[] {
  const names = Object.keys(builtIn)
  const rows = [...leaves(of.fields)].map(({ key, field }) => {
    const row = rowOf(`${prefix}${key}`, field)
    row.splice(2, 0, ...names.map((name) => builtInCell(valueAt(builtIn[name], key), field)))
    return row
  })
  return [title, doc, renderTable(['key', 'default', ...names, 'takes', 'meaning'], rows)]
}

/** Empty where the built-in value is the default: a reader looks for the difference. */
function builtInCell(value: unknown, field: Field<unknown>): string {
  const shown = shownDefault(value, field)
  return shown === shownDefault(field.initial, field) ? '' : code(shown)
}

function rowOf(key: string, field: Field<unknown>): string[] {
  const takes = [field.type, field.bounds, field.unit].filter((part) => part !== undefined)
  const initial = field.secret === true ? '(secret)' : code(shownDefault(field.initial, field))
  return [code(key), initial, takes.join(', '), field.doc]
}

function renderTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

function valueAt(value: unknown, key: string): unknown {
  let at = value
  for (const word of key.split('.')) at = (at as Record<string, unknown> | undefined)?.[word]
  return at
}

function shownDefault(value: unknown, field: Field<unknown>): string {
  if (field.show !== undefined && typeof value === 'number') return field.show(value)
  if (value === '') return 'none'
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(',')
  if (typeof value !== 'object' || value === null) return String(value)
  const pairs = Object.entries(value).map(([name, entry]) => `${name}=${entry}`)
  return pairs.length === 0 ? 'none' : pairs.join(',')
}

function helpDefault(field: Field<unknown>): string {
  return field.secret === true ? 'secret' : `${shownDefault(field.initial, field)}${unitOf(field)}`
}

function unitOf(field: Field<unknown>): string {
  return field.unit === undefined || field.show !== undefined ? '' : ` ${field.unit}`
}

function code(value: string): string {
  return `\`${value}\``
}
