// Renders the configuration in effect, with secrets hidden.
// The text form is YAML that can be saved and loaded with --config.
import type { Field, Fields, Node } from '../../base/fields.ts'
import { type Config, configFields } from './config.ts'
import type { Loaded } from './load.ts'

/** Shown instead of a secret that is set. */
const HIDDEN = '(set)'

/** The values as plain data; a secret that is set reads `(set)`, a node's URL ends in it. */
export function visibleConfig(config: Config, fields: Fields = configFields): unknown {
  return visibleGroup(fields, config, plainOf)
}

/** How a leaf is shown. */
type Show = (field: Field<unknown>, value: unknown) => unknown

const plainOf: Show = (_, value) => value
const textOf: Show = (field, value) => field.show?.(value) ?? value

/** YAML, one key per line, quantities with their unit; a key that was set shows its origin. */
export function renderConfig(loaded: Loaded, fields: Fields = configFields): string {
  const lines: string[] = []
  writeLines(visibleGroup(fields, loaded.config, textOf), '', 0)
  return lines.join('\n')

  function writeLines(value: unknown, key: string, depth: number): void {
    for (const [name, child] of Object.entries(value as Record<string, unknown>)) {
      const childKey = key === '' ? name : `${key}.${name}`
      const indent = '  '.repeat(depth)
      if (isPlainGroup(child) && !loaded.origins.has(childKey) && !isLeafMap(childKey)) {
        lines.push(`${indent}${name}:${Object.keys(child).length === 0 ? ' {}' : ''}`)
        writeLines(child, childKey, depth + 1)
        continue
      }
      const origin = originOf(childKey)
      const shown = JSON.stringify(child)
      lines.push(`${indent}${name}: ${shown}${origin === '' ? '' : `  # ${origin}`}`)
    }
  }

  /** A list of sections is one line; its origins are those of all its keys. */
  function originOf(key: string): string {
    const own = loaded.origins.get(key)
    if (own !== undefined) return own
    const below = [...loaded.origins].filter(([path]) => path.startsWith(`${key}.`))
    return [...new Set(below.map(([, origin]) => origin))].join(', ')
  }

  function isLeafMap(key: string): boolean {
    return nodeAt(fields, key.split('.'))?.node === 'field'
  }
}

function visibleGroup(fields: Fields, value: unknown, show: Show): unknown {
  const values = value as Record<string, unknown>
  return Object.fromEntries(
    Object.entries(fields).map(([name, node]) => [name, visible(node, values[name], show)]),
  )
}

function visible(node: Node, value: unknown, show: Show): unknown {
  if (node.node === 'group') return visibleGroup(node.fields, value, show)
  if (node.node === 'many')
    return (value as readonly unknown[]).map((item) => visibleGroup(node.of.fields, item, show))
  if (node.node === 'named')
    return Object.fromEntries(
      Object.entries(value as object).map(([name, item]) => [
        name,
        visibleGroup(node.of.fields, item, show),
      ]),
    )
  if (node.secret === false) return show(node, value)
  if (isEmpty(value)) return value
  return node.secret === 'after-origin' ? originShown(String(value)) : HIDDEN
}

/** A URL without user, password, path and query; `/(set)` shows that it has one of them. */
function originShown(url: string): string {
  if (!URL.canParse(url)) return HIDDEN
  const { protocol, host, pathname, search, hash, username, password } = new URL(url)
  const isBare = `${pathname}${search}${hash}${username}${password}`.replace('/', '') === ''
  // `origin` is null for ws and wss.
  return `${protocol}//${host}${isBare ? '' : `/${HIDDEN}`}`
}

function nodeAt(fields: Fields, segments: readonly string[]): Node | undefined {
  const [first = '', ...rest] = segments
  const node = fields[first]
  if (node === undefined || rest.length === 0) return node
  if (node.node === 'group') return nodeAt(node.fields, rest)
  if (node.node === 'field') return undefined
  return nodeAt(node.of.fields, rest.slice(1))
}

function isPlainGroup(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isEmpty(value: unknown): boolean {
  return value === '' || (Array.isArray(value) && value.length === 0)
}
