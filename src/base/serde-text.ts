// Words the errors of a validator's deserializer (serde), which clients match on.

const U64_MAX = 2n ** 64n - 1n

/** What was found, e.g. `integer \`5\``. */
export function unexpected(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (Array.isArray(value)) return 'sequence'
  switch (typeof value) {
    case 'string':
      return `string ${JSON.stringify(value)}`
    case 'bigint':
      return value <= U64_MAX ? `integer \`${value}\`` : `floating point \`${Number(value)}.0\``
    case 'number':
      return Number.isInteger(value) ? `integer \`${value}\`` : `floating point \`${value}\``
    case 'boolean':
      return `boolean \`${value}\``
    default:
      return 'map'
  }
}

export function invalidType(value: unknown, expected: string): string {
  return `invalid type: ${unexpected(value)}, expected ${expected}`
}

export function unknownVariant(found: string, known: readonly string[]): string {
  const names = known.map((name) => `\`${name}\``)
  const list = names.length === 2 ? names.join(' or ') : `one of ${names.join(', ')}`
  return `unknown variant \`${found}\`, expected ${list}`
}

/** Null for a whole number from 0 to 2^64 - 1. */
export function wholeNumberProblem(value: unknown, type: string): string | null {
  if (typeof value === 'bigint') return value <= U64_MAX ? null : invalidType(value, type)
  if (typeof value !== 'number' || !Number.isInteger(value)) return invalidType(value, type)
  return value >= 0 ? null : `invalid value: integer \`${value}\`, expected ${type}`
}

/** By name, whether a variant has content. */
export type Variants = Readonly<Record<string, boolean>>

/** Reads `"name"`, or `{"name": content}` where there is content; a text is the problem. */
export function readVariant<T extends Variants>(
  value: unknown,
  known: T,
): { readonly name: keyof T; readonly content: unknown } | string {
  const isText = typeof value === 'string'
  if (!isText && (typeof value !== 'object' || value === null || Array.isArray(value)))
    return invalidType(value, 'string or map')
  const names = isText ? [value] : Object.keys(value)
  const name = names[0]
  if (name === undefined || names.length > 1)
    return 'invalid value: map, expected map with a single key'
  if (!Object.hasOwn(known, name)) return unknownVariant(name, Object.keys(known))
  if (isText && known[name] === true) return 'invalid type: unit variant, expected newtype variant'
  // Reason for the cast: an object of JSON is a record.
  return { name, content: isText ? null : (value as Record<string, unknown>)[name] }
}
