// The rent of accounts.

const accountBytes = 128
const lamportsPerByte = 6_960n

/** Least balance that exempts an account of so many bytes of data from rent. */
export function rentExemptMinimum(dataBytes: number): bigint {
  return BigInt(accountBytes + dataBytes) * lamportsPerByte
}
