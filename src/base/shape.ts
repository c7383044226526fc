// Checks the shape of parsed JSON that another process wrote.
// Fields that a check does not name are ignored: a later version may have added them.

export type Check = (value: unknown) => boolean

type Checks = Readonly<Record<string, Check>>

export const isText: Check = (value) => typeof value === 'string'

export const isNumber: Check = (value) => typeof value === 'number' && Number.isFinite(value)

/** An unsigned integer of at most 64 bits, exact or not. */
export const isCount: Check = (value) =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 64

export function matching(pattern: RegExp): Check {
  return (value) => typeof value === 'string' && pattern.test(value)
}

export function listOf(check: Check): Check {
  return (value) => Array.isArray(value) && value.every((item) => check(item))
}

export function nullOr(check: Check): Check {
  return (value) => value === null || check(value)
}

/** Has every field of `required`, and those of `optional` that it has pass. */
export function objectOf(required: Checks, optional: Checks = {}): Check {
  const wanted = Object.entries(required)
  const known = Object.entries(optional)
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
    // Reason for the cast: an object's fields are unknown until they are checked.
    const fields = value as Readonly<Record<string, unknown>>
    return (
      wanted.every(([name, check]) => check(fields[name])) &&
      known.every(([name, check]) => fields[name] === undefined || check(fields[name]))
    )
  }
}
