// The documents: links lead somewhere, lines fit a page, tables are those of the code.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { codesOf } from '../../src/base/errors.ts'
import { initialOf } from '../../src/base/fields.ts'
import { DATABASE, visibleTables } from '../../src/indexer/catalogue.ts'
import { grpcSection } from '../../src/products/grpc/config.ts'
import { gatewayBounds } from '../../src/streams/geyser/hub.ts'
import { root, sourceFiles } from '../testkit/tree.ts'

const lineLengthMax = 160
/** Generated from declarations, or records for developers whose rows are long by nature. */
const mayBeWide = ['CONFIG', 'METERS', 'DESIGN', 'PERFORMANCE'].map((name) => `docs/${name}.md`)
mayBeWide.push('CHANGELOG.md')

const folders = ['docs', 'examples', 'deploy'].filter((name) => existsSync(join(root, name)))
const documents = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(md|txt)$/.test(name) && !name.includes('node_modules'))
      .map((name) => join(folder, name)),
  ),
]
const read = (path: string) => readFileSync(join(root, path), 'utf8')
/** Without code, in which brackets are no links and `#` is no heading. */
const prose = (text: string) => text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`/g, 'code')

describe('the documents', () => {
  test.each(documents)('%s links only to files and headings that exist', (path) => {
    const broken = linksIn(read(path)).filter((target) => !resolves(path, target))
    expect(broken).toEqual([])
  })

  test('sees a broken link and a broken anchor', () => {
    const text =
      '# One `two` (3)\n[a](b.md) [c](d.md#e "title") [web](https://x.y)\n```\n[no](no)\n```'
    expect(linksIn(text)).toEqual(['b.md', 'd.md#e'])
    expect(anchorsIn('# One `two` (3), four\n## Same\n## Same')).toEqual([
      'one-two-3-four',
      'same',
      'same-1',
    ])
    expect(resolves('README.md', 'docs/API.md#token')).toBe(true)
    expect(resolves('README.md', 'docs/API.md#no-such-heading')).toBe(false)
    expect(resolves('docs/API.md', 'no-such-file.md')).toBe(false)
  })

  test.each(documents.filter((path) => !mayBeWide.includes(path)))('%s fits a page', (path) => {
    const wide = read(path)
      .split('\n')
      .map((line, index) => `${path}:${index + 1} has ${line.length} columns`)
      .filter((_, index) => read(path).split('\n')[index]!.length > lineLengthMax)
    expect(wide).toEqual([])
  })

  test('reach every page of the API from its contents, and all of them from llms.txt', () => {
    const pages = readdirSync(join(root, 'docs', 'api'))
    expect(linksIn(read('docs/API.md'))).toEqual(
      expect.arrayContaining(pages.map((page) => `api/${page}`)),
    )
    const own = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'))
    expect(linksIn(read('docs/llms.txt'))).toEqual(
      expect.arrayContaining([...own, ...pages.map((page) => `api/${page}`)]),
    )
  })

  // Without --no npx may fetch a package of that name; without -- npm takes --help and --version.
  test('print commands that npx passes on whole to this package', () => {
    const texts = [
      ...documents.map((path) => ({ path, text: read(path) })),
      ...sourceFiles('src', 'bench', 'test'),
    ]
    const risky = texts.filter(({ text }) => /npx (--no )?sluice\b/.test(text))
    expect(risky.map(({ path }) => path).filter((path) => path !== 'CHANGELOG.md')).toEqual([])
  })

  test('show JSON that can be parsed', () => {
    const blocks = documents.flatMap((path) => [
      ...read(path).matchAll(/^```json\n([\s\S]*?)^```/gm),
    ])
    expect(blocks.length).toBeGreaterThan(3)
    // One object a line; a line that is indented continues the one before.
    for (const [, block] of blocks)
      for (const text of block!.trim().split(/\n(?! )/))
        expect(() => JSON.parse(text)).not.toThrow()
  })

  test('give the code of every refusal on every protocol', () => {
    const rows = rowsIn(read('docs/API.md'), '| kind | HTTP |').map((cells) => cells.slice(1))
    const declared = Object.values(codesOf).map(({ http, jsonrpc, grpc, close }) => [
      String(http),
      String(jsonrpc),
      String(grpc),
      String(close),
    ])
    expect(rows.map((row) => row.map((cell) => /\((\d+)\)/.exec(cell)?.[1] ?? cell))).toEqual(
      declared,
    )
  })

  test('name the limits of gRPC that are its defaults', () => {
    const page = read('docs/api/grpc.md')
    const initial = initialOf(grpcSection.fields)
    const { filters, health } = initial
    const thousands = (value: number) => value.toLocaleString('en')
    const mebibytes = (value: number) => `${value / 1024 / 1024} MiB`
    const keyBytesMax = 44 + 2
    expect(initial.messageBytesMax).toBeGreaterThan(filters.accountsMax * keyBytesMax)
    expect(initial.messageBytesMax).toBeGreaterThan(filters.cuckooBytesMax)
    for (const sentence of [
      `at most ${mebibytes(initial.messageBytesMax)}`,
      `over ${mebibytes(initial.backlogBytesMax)} unread`,
      `Every ${initial.pingMs / 1000} s`,
      `pings go out every ${initial.keepaliveMs / 1000} s`,
      `unanswered for ${initial.keepaliveTimeoutMs / 1000} s`,
      `after ${initial.connectionIdleMs / 60_000} minutes without a call`,
      `${initial.connectionsPerAddressMax} per address`,
      `may have ${health.callsPerAddressMax} calls open`,
      `${filters.filtersMax} of one kind`,
      `${thousands(filters.accountsMax)} keys in a list of accounts`,
      `${thousands(filters.ownersMax)} in one of owners`,
      `cuckoo filters up to ${mebibytes(filters.cuckooBytesMax)}`,
      `up to ${filters.dataSlicesMax} slices`,
      `the last ${gatewayBounds.replaySlots} slots are kept, or the last ${gatewayBounds.replayMs / 1000} s where those are more, up to ${mebibytes(gatewayBounds.replayBytesMax)}`,
    ])
      expect(page.replace(/\s+/g, ' ')).toContain(sentence)
    expect(initial.reflection).toBe(false)
  })

  test('list the columns of every table of the indexer', () => {
    const documented = new Map<string, string>()
    let name = ''
    for (const [first, columns] of rowsIn(read('docs/api/indexer.md'), '| table | columns |')) {
      name = first === '' ? name : first!.replaceAll('`', '')
      documented.set(name, [documented.get(name) ?? '', columns].join(' ').trim())
    }
    const declared = visibleTables
      .filter(({ database }) => database === DATABASE)
      .map(({ name, columns }): [string, string] => [
        name,
        Object.entries(columns)
          .map(([column, type]) => `${column} ${type}`)
          .join(', '),
      ])
    expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(declared))
  })
})

function linksIn(text: string): string[] {
  return [...prose(text).matchAll(/\]\(([^)\s]+)(?: "[^"]*")?\)/g)]
    .map(([, target]) => target!)
    .filter((target) => !/^(https?|mailto):/.test(target))
}

function resolves(from: string, target: string): boolean {
  const [path = '', anchor] = target.split('#')
  const file = path === '' ? from : relative(root, join(root, dirname(from), path))
  if (!existsSync(join(root, file))) return false
  return anchor === undefined || anchorsIn(read(file)).includes(anchor)
}

/** As GitHub makes them: lower case, signs dropped, spaces to hyphens, a number for a repetition. */
function anchorsIn(text: string): string[] {
  const seen = new Map<string, number>()
  return [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6} (.+)$/gm)].map(
    ([, title]) => {
      const plain = title!.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '')
      const anchor = plain.trim().replaceAll(' ', '-')
      const times = seen.get(anchor) ?? 0
      seen.set(anchor, times + 1)
      return times === 0 ? anchor : `${anchor}-${times}`
    },
  )
}

/** The cells of the rows of the table with this head. */
function rowsIn(text: string, head: string): string[][] {
  const lines = text.split('\n')
  const start = lines.findIndex((line) => line.startsWith(head))
  const length = lines.slice(start).findIndex((line) => !line.startsWith('|'))
  return lines.slice(start + 2, start + length).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}
