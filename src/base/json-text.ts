// Writes JSON text with 64-bit integers and embedded ready-made JSON.
// `JSON.stringify` refuses bigints and cannot embed text that is JSON already; Solana's responses
// need both: lamports go up to 2^64, and account data must not be encoded twice.

/** JSON that is embedded verbatim. */
export class ReadyJson {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** The value as JSON: bigints as digits, `ReadyJson` verbatim, undefined members omitted. */
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

/**
 * An object of members that are JSON already, each with its name. Sorted by name, as a validator
 * writes its answers, or in the given order, as it writes notifications. Changes the list.
 */
export function objectText(members: string[], isSorted: boolean): string {
  return `{${(isSorted ? members.sort() : members).join(',')}}`
}

/** A copy whose objects have their members sorted by name, as a validator sorts parsed data. */
export function sortedMembers(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof ReadyJson) return value
  if (Array.isArray(value)) return value.map(sortedMembers)
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(members.map(([key, member]) => [key, sortedMembers(member)]))
}
