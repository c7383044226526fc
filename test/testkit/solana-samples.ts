// Transactions made by hand for the decoder's tests: legacy, many signers, v0 with lookup tables.

export interface Sample {
  readonly name: string
  readonly bytes: Uint8Array
}

/** Valid in form; the signatures are filler, which a decoder does not look at. */
export function sampleTransactions(): Sample[] {
  const transfer = Uint8Array.of(2, 0, 0, 0, 0x40, 0x42, 0x0f, 0, 0, 0, 0, 0)
  return [
    {
      name: 'a legacy transfer',
      bytes: transaction({
        header: [1, 0, 1],
        keys: 3,
        instructions: [{ program: 2, accounts: [0, 1], data: transfer }],
      }),
    },
    {
      name: 'a legacy transaction of three signers',
      bytes: transaction({
        header: [3, 1, 2],
        keys: 7,
        instructions: [
          { program: 6, accounts: [0, 1, 2, 3], data: new Uint8Array(200).fill(9) },
          { program: 5, accounts: [], data: new Uint8Array(0) },
        ],
      }),
    },
    {
      name: 'a v0 transaction with two lookup tables',
      bytes: transaction({
        version: 0,
        header: [1, 0, 1],
        keys: 4,
        instructions: [{ program: 3, accounts: [0, 4, 5, 6, 7], data: transfer }],
        lookups: [
          { writable: [1, 2], readonly: [3] },
          { writable: [], readonly: [0] },
        ],
      }),
    },
    {
      name: 'a v0 transaction without tables',
      bytes: transaction({
        version: 0,
        header: [2, 1, 1],
        keys: 4,
        instructions: [{ program: 3, accounts: [1], data: transfer }],
        lookups: [],
      }),
    },
  ]
}

interface Parts {
  readonly version?: 0
  readonly header: readonly [number, number, number]
  readonly keys: number
  readonly instructions: readonly { program: number; accounts: number[]; data: Uint8Array }[]
  readonly lookups?: readonly { writable: number[]; readonly: number[] }[]
}

function transaction(parts: Parts): Uint8Array {
  const out: number[] = [parts.header[0]]
  for (let index = 0; index < parts.header[0]; index++) out.push(...filler(64, 17 + index))
  if (parts.version === 0) out.push(0x80)
  out.push(...parts.header, parts.keys)
  for (let index = 0; index < parts.keys; index++) out.push(...filler(32, 100 + index))
  out.push(...filler(32, 200), parts.instructions.length)
  for (const { program, accounts, data } of parts.instructions)
    out.push(program, ...counted(accounts), ...counted([...data]))
  if (parts.lookups !== undefined) {
    out.push(parts.lookups.length)
    parts.lookups.forEach(({ writable, readonly }, index) => {
      out.push(...filler(32, 220 + index), ...counted(writable), ...counted(readonly))
    })
  }
  return Uint8Array.from(out)
}

function counted(values: readonly number[]): number[] {
  const { length } = values
  return length < 0x80 ? [length, ...values] : [(length & 0x7f) | 0x80, length >> 7, ...values]
}

function filler(length: number, seed: number): number[] {
  return Array.from({ length }, (_, index) => (seed * 31 + index * 7) & 0xff)
}
