// Layouts of the formats that are written row by row: the text around the cells. Thread: any
// (pure). The engine renders whole rows from a layout in SQL; small results are rendered here.
//
//   begin  lead0 cell0 lead1 cell1 … close  (between lead0 … close)*  end
import { shortEscapes } from '../sql/lexer.ts'
import type { Format, LayoutName, ResultColumn, ResultStatistics } from './formats.ts'

/** How a value becomes text: `text` and `raw` differ in NULL, `jsonTree` has line breaks. */
export type CellMode =
  | 'json'
  | 'jsonTree'
  | 'jsonText'
  | 'csv'
  | 'escaped'
  | 'raw'
  | 'text'
  | 'quoted'
  | 'xml'

export interface Layout {
  readonly mode: CellMode
  readonly begin: string
  /** Before every row but the first. */
  readonly between: string
  /** Before each cell; the first may contain `rowNumber` and `rowRule`. */
  readonly leads: readonly string[]
  readonly close: string
  /** Rows are counted, not written. */
  readonly isSilent?: true
  end(statistics: ResultStatistics): string
}

/** Stand for the row's number, counted from 1, and for a rule as long as `Row N:`. */
export const rowNumber = '\u0000n'
export const rowRule = '\u0000r'

export function layoutOf({ writing, heads }: Format, columns: readonly ResultColumn[]): Layout {
  const layout = layouts['rows' in writing ? writing.rows : 'none'](columns)
  const write = cellText(layout.mode)
  const headLine = (texts: readonly string[]) =>
    layout.leads.map((lead, at) => lead + write(texts[at]!)).join('') + layout.close
  const names = headLine(columns.map(({ name }) => name))
  const types = headLine(columns.map(({ type }) => type))
  return { ...layout, begin: layout.begin + ['', names, names + types][heads]! }
}

type Build = (columns: readonly ResultColumn[]) => Layout

const layouts: Readonly<Record<LayoutName, Build>> = {
  json: jsonDocument('jsonTree', true),
  jsonStrings: jsonDocument('jsonText', true),
  jsonCompact: jsonDocument('json', false),
  jsonCompactStrings: jsonDocument('jsonText', false),
  jsonObjects: (columns) => ({
    ...jsonObjects('json', `\t"row_${rowNumber}": {`, '}')(columns),
    begin: '{\n',
    between: ',\n',
    end: () => '\n}\n',
  }),
  jsonLines: jsonObjects('json', '{', '}\n'),
  jsonStringLines: jsonObjects('jsonText', '{', '}\n'),
  jsonProgressLines: (columns) => {
    const meta = columns.map(
      ({ name, type }) => `{"name":${jsonText(name)},"type":${jsonText(type)}}`,
    )
    return {
      ...jsonObjects('json', '{"row":{', '}}\n')(columns),
      begin: `{"meta":[${meta.join(',')}]}\n`,
      end: ({ readRows, elapsedSeconds, totals }) => {
        const elapsed = Math.round(elapsedSeconds * 1e9)
        const cells = totals?.map((text, at) => `${jsonText(columns[at]!.name)}:${text}`)
        const row = cells === undefined ? '' : `{"totals":{${cells.join(',')}}}\n`
        return `${row}{"progress":{"read_rows":"${readRows}","elapsed_ns":"${elapsed}"}}\n`
      },
    }
  },
  jsonArrays: separated('json', '[', ', ', ']\n'),
  jsonStringArrays: separated('jsonText', '[', ', ', ']\n'),
  csv: separatedLines('csv', ','),
  tsv: separatedLines('escaped', '\t'),
  tsvRaw: separatedLines('raw', '\t'),
  values: (columns) => ({ ...separated('quoted', '(', ',', ')')(columns), between: ',' }),
  sqlInsert: (columns) => {
    const names = columns.map(({ name }) => `\`${name.replaceAll(/[\\`]/g, '\\$&')}\``).join(', ')
    return {
      ...separated('quoted', '(', ', ', ')')(columns),
      begin: `INSERT INTO table (${names}) VALUES `,
      between: ', ',
      end: () => ';\n',
    }
  },
  vertical: (columns) => {
    const width = Math.max(...columns.map(({ name }) => [...name].length)) + 2
    const leads = columns.map(({ name }) =>
      `${name}:`.padEnd(width + name.length - [...name].length),
    )
    return {
      ...separated('text', '', '', '\n')(columns),
      between: '\n',
      leads: leads.map((lead, at) => (at === 0 ? `Row ${rowNumber}:\n${rowRule}\n` : '\n') + lead),
      end: ({ totals }) => {
        if (totals === null) return ''
        const lines = totals.map((text, at) => `${leads[at]}${text}\n`)
        return `\n\nTotals:\n${'─'.repeat(7)}\n${lines.join('')}`
      },
    }
  },
  markdown: (columns) => {
    const names = columns.map(({ name }) => escapedText(name)).join(' | ')
    const rules = columns.map(({ type }) => (isRightAligned(type) ? '-:' : ':-')).join('|')
    return {
      ...separated('escaped', '| ', ' | ', ' |\n')(columns),
      begin: `| ${names} |\n|${rules}|\n`,
    }
  },
  xml: (columns) => {
    const tags = columns.map(({ name }) => (/^[a-z_][\w.-]*$/i.test(name) ? name : 'field'))
    const meta = columns.map(({ name, type }) => {
      const lines = `\t\t\t\t<name>${xmlText(name)}</name>\n\t\t\t\t<type>${xmlText(type)}</type>\n`
      return `\t\t\t<column>\n${lines}\t\t\t</column>\n`
    })
    return {
      mode: 'xml',
      begin:
        "<?xml version='1.0' encoding='UTF-8' ?>\n<result>\n\t<meta>\n\t\t<columns>\n" +
        `${meta.join('')}\t\t</columns>\n\t</meta>\n\t<data>\n`,
      between: '',
      leads: tags.map((tag, at) => {
        return `${at === 0 ? '\t\t<row>\n' : `</${tags[at - 1]}>\n`}\t\t\t<${tag}>`
      }),
      close: `</${tags.at(-1)}>\n\t\t</row>\n`,
      end: ({ rows, readRows, elapsedSeconds, isLimited, totals }) =>
        `\t</data>\n${totalsXml(tags, totals)}\t<rows>${rows}</rows>\n` +
        `${limitedXml(rows, isLimited)}\t<statistics>\n` +
        `\t\t<elapsed>${elapsedSeconds}</elapsed>\n\t\t<rows_read>${readRows}</rows_read>\n` +
        '\t\t<bytes_read>0</bytes_read>\n\t</statistics>\n</result>\n',
    }
  },
  none: (columns) => ({ ...separated('raw', '', '', '')(columns), isSilent: true }),
}

function totalsXml(tags: readonly string[], totals: ResultStatistics['totals']): string {
  if (totals === null) return ''
  const lines = totals.map((text, at) => `\t\t<${tags[at]}>${text}</${tags[at]}>\n`)
  return `\t<totals>\n${lines.join('')}\t</totals>\n`
}

function limitedXml(rows: number, isLimited: boolean): string {
  const tag = 'rows_before_limit_at_least'
  return isLimited ? `\t<${tag}>${rows}</${tag}>\n` : ''
}

function separated(mode: CellMode, open: string, separator: string, close: string): Build {
  return (columns) => ({
    mode,
    begin: '',
    between: '',
    leads: columns.map((_, at) => (at === 0 ? open : separator)),
    close,
    end: () => '',
  })
}

/** One row a line; the totals follow an empty line. */
function separatedLines(mode: CellMode, separator: string): Build {
  return (columns) => ({
    ...separated(mode, '', separator, '\n')(columns),
    end: ({ totals }) => (totals === null ? '' : `\n${totals.join(separator)}\n`),
  })
}

function jsonObjects(mode: CellMode, open: string, close: string): Build {
  return (columns) => ({
    ...separated(mode, '', '', close)(columns),
    leads: columns.map(({ name }, at) => `${at === 0 ? open : ','}${jsonText(name)}:`),
  })
}

function jsonDocument(mode: CellMode, hasNames: boolean): Build {
  return (columns) => ({
    mode,
    begin: `{\n${jsonMeta(columns)}\t"data":\n\t[\n`,
    between: ',\n',
    leads: columns.map(({ name }, at) => {
      if (!hasNames) return at === 0 ? '\t\t[' : ', '
      return `${at === 0 ? '\t\t{\n' : ',\n'}\t\t\t${jsonText(name)}: `
    }),
    close: hasNames ? '\n\t\t}' : ']',
    end: (statistics) => {
      const { totals } = statistics
      const row = hasNames
        ? jsonTotals(columns, totals)
        : totals === null
          ? ''
          : `\t"totals": [${totals.join(', ')}],\n\n`
      return `\n\t],\n\n${row}${jsonEnd(statistics)}}\n`
    },
  })
}

/** The member `totals` of a JSON document with names. */
export function jsonTotals(
  columns: readonly ResultColumn[],
  totals: ResultStatistics['totals'],
): string {
  if (totals === null) return ''
  const members = totals.map((text, at) => `\t\t${jsonText(columns[at]!.name)}: ${text}`)
  return `\t"totals":\n\t{\n${members.join(',\n')}\n\t},\n\n`
}

/** The member `meta` of a JSON document. */
export function jsonMeta(columns: readonly ResultColumn[]): string {
  const items = columns.map(({ name, type }) => {
    return `\t\t{\n\t\t\t"name": ${jsonText(name)},\n\t\t\t"type": ${jsonText(type)}\n\t\t}`
  })
  return `\t"meta":\n\t[\n${items.join(',\n')}\n\t],\n\n`
}

/** The members after the data of a JSON document. */
export function jsonEnd(statistics: ResultStatistics): string {
  const { rows, readRows, elapsedSeconds, isLimited } = statistics
  return (
    `\t"rows": ${rows},\n\n${isLimited ? `\t"rows_before_limit_at_least": ${rows},\n\n` : ''}` +
    `\t"statistics":\n\t{\n\t\t"elapsed": ${elapsedSeconds},\n\t\t"rows_read": ${readRows},\n` +
    '\t\t"bytes_read": 0\n\t}\n'
  )
}

/** Numbers and times are aligned to the right. */
export function isRightAligned(type: string): boolean {
  return /^(Nullable\()?(U?Int|Float|Decimal|Date)/.test(type)
}

/** Writes a string, or a number, in a mode. */
export function cellText(mode: CellMode): (value: string | number) => string {
  const write = textWriters[mode]
  return (value) =>
    typeof value === 'number' && mode !== 'jsonText' ? `${value}` : write(`${value}`)
}

const textWriters: Readonly<Record<CellMode, (text: string) => string>> = {
  json: jsonText,
  jsonTree: jsonText,
  jsonText,
  csv: (text) => `"${text.replaceAll('"', '""')}"`,
  escaped: escapedText,
  raw: (text) => text,
  text: (text) => text,
  quoted: (text) => `'${escapedText(text)}'`,
  xml: xmlText,
}

export function jsonText(text: string): string {
  return jsonCell(JSON.stringify(text), true)
}

/** Escapes in JSON what ClickHouse escapes and JSON does not require: `/`, U+2028 and U+2029. */
export function jsonCell(json: string, escapesSlashes: boolean): string {
  const cell = json.replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
  return escapesSlashes ? cell.replaceAll('/', '\\/') : cell
}

function escapedText(text: string): string {
  return text.replaceAll(/[\\'\t\n\r\b\f\0]/g, (char) => shortEscapes.get(char) ?? `\\${char}`)
}

function xmlText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
