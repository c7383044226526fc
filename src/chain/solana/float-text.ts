// Formats a 64-bit float as a validator does: shortest digits, never with an exponent.

export function floatText(value: number): string {
  if (Object.is(value, -0)) return '-0'
  const text = String(value).replace('Infinity', 'inf')
  const [, sign, first, rest = '', power] = exponential.exec(text) ?? []
  if (power === undefined) return text
  const digits = `${first}${rest}`
  const shift = Number(power)
  return shift > 0
    ? `${sign}${digits.padEnd(shift + 1, '0')}`
    : `${sign}0.${'0'.repeat(-shift - 1)}${digits}`
}

const exponential = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/
