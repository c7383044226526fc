// JSON text with 64-bit integers and parts that are ready. Thread: any (pure).
// `JSON.stringify` refuses bigints and cannot take in text that is JSON already; Solana's answers
// need both: lamports go up to 2^64, and account data must not be written twice.

/** JSON that goes into a text as it stands. */
export class ReadyJson {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** The value as JSON: bigints as digits, `ReadyJson` verbatim, undefined members left out. */
export function jsonText(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value)
    case 'number':
      return Number.isFinite(value) ? String(value) : 'null'
    case 'bigint':
    case 'boolean':
      return String(value)
    case 'object':
      break
    default:
      return 'null'
  }
  if (value === null) return 'null'
  if (value instanceof ReadyJson) return value.text
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`
  const members: string[] = []
  for (const [key, member] of Object.entries(value))
    if (member !== undefined) members.push(`${JSON.stringify(key)}:${jsonText(member)}`)
  return `{${members.join(',')}}`
}
