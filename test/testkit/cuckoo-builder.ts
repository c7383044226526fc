// Builds a cuckoo filter the way clients do, with a SipHash of its own on 64-bit integers, so that
// the product's 32-bit one is checked against something else than itself.

const mask = (1n << 64n) - 1n
const rotate = (value: bigint, bits: bigint) => ((value << bits) | (value >> (64n - bits))) & mask

export function sipHash(seed: bigint, input: Uint8Array): bigint {
  const k1 = rotate(seed, 32n)
  let [a, b, c, d] = [
    seed ^ 0x736f6d6570736575n,
    k1 ^ 0x646f72616e646f6dn,
    seed ^ 0x6c7967656e657261n,
    k1 ^ 0x7465646279746573n,
  ] as [bigint, bigint, bigint, bigint]
  const round = () => {
    a = (a + b) & mask
    b = rotate(b, 13n) ^ a
    a = rotate(a, 32n)
    c = (c + d) & mask
    d = rotate(d, 16n) ^ c
    a = (a + d) & mask
    d = rotate(d, 21n) ^ a
    c = (c + b) & mask
    b = rotate(b, 17n) ^ c
    c = rotate(c, 32n)
  }
  const padded = Buffer.alloc((Math.floor(input.length / 8) + 1) * 8)
  padded.set(input)
  padded[padded.length - 1] = input.length
  for (let at = 0; at < padded.length; at += 8) {
    const word = padded.readBigUInt64LE(at)
    d ^= word
    round()
    round()
    a ^= word
  }
  c ^= 0xffn
  for (let rounds = 0; rounds < 4; rounds++) round()
  return a ^ b ^ c ^ d
}

/** The `data` of a CuckooFilter message with the keys, and its number of buckets. */
export function buildCuckoo(
  keys: readonly Uint8Array[],
  seed: bigint,
): { data: Buffer; buckets: number } {
  let buckets = 1
  while (buckets * 4 * 0.9 < keys.length) buckets *= 2
  const table = Array.from({ length: buckets }, () => [0, 0, 0, 0])
  const indexOf = (hash: bigint) => Number(hash & BigInt(buckets - 1))
  const put = (bucket: number, fingerprint: number) => {
    const free = table[bucket]!.indexOf(0)
    if (free !== -1) table[bucket]![free] = fingerprint
    return free !== -1
  }
  for (const key of keys) {
    const hash = sipHash(seed, Buffer.concat([Buffer.from([32, 0, 0, 0, 0, 0, 0, 0]), key]))
    let fingerprint = Number((hash >> 32n) & 0xffffn) || 1
    let bucket = indexOf(hash)
    const other = (of: number) => {
      const bytes = Buffer.alloc(2)
      bytes.writeUInt16LE(of)
      return indexOf(sipHash(seed, bytes))
    }
    if (put(bucket, fingerprint)) continue
    bucket ^= other(fingerprint)
    for (let kick = 0; !put(bucket, fingerprint); kick++) {
      if (kick > 500) throw new Error('the filter is full')
      const victim = table[bucket]![kick % 4]!
      table[bucket]![kick % 4] = fingerprint
      fingerprint = victim
      bucket ^= other(fingerprint)
    }
  }
  const data = Buffer.alloc(buckets * 8)
  table.flat().forEach((fingerprint, index) => {
    data.writeUInt16LE(fingerprint, index * 2)
  })
  return { data, buckets }
}

/** Whether the filter takes the key, false hits included. */
export function cuckooTakes(data: Buffer, seed: bigint, key: Uint8Array): boolean {
  const hash = sipHash(seed, Buffer.concat([Buffer.from([32, 0, 0, 0, 0, 0, 0, 0]), key]))
  const fingerprint = Number((hash >> 32n) & 0xffffn) || 1
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16LE(fingerprint)
  const mask = BigInt(data.length / 8 - 1)
  const first = Number(hash & mask)
  const second = first ^ Number(sipHash(seed, bytes) & mask)
  return [first, second].some((bucket) =>
    [0, 2, 4, 6].some((at) => data.readUInt16LE(bucket * 8 + at) === fingerprint),
  )
}
