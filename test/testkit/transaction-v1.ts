// Builds transactions of version 1 from plain parts, for tests.
import type { Keypair } from '../../src/chain/solana/keypair.ts'

export interface V1Parts {
  readonly signers: readonly Keypair[]
  /** Keys that do not sign: writable ones, then readonly ones. */
  readonly writable?: readonly Uint8Array[]
  readonly readonly: readonly Uint8Array[]
  readonly blockhash: Uint8Array
  readonly config?: {
    readonly priorityFee?: bigint
    readonly units?: number
    readonly loadedBytes?: number
    readonly heapBytes?: number
  }
  /** Indices count signers, writable keys, readonly keys. */
  readonly instructions: readonly {
    readonly program: number
    readonly accounts: readonly number[]
    readonly data: Uint8Array
  }[]
}

export function v1Message(parts: V1Parts): Buffer {
  const { signers, writable = [], readonly, blockhash, config = {}, instructions } = parts
  const keys = [...signers.map((signer) => signer.publicKey), ...writable, ...readonly]
  const fee = Buffer.alloc(config.priorityFee === undefined ? 0 : 8)
  if (config.priorityFee !== undefined) fee.writeBigUInt64LE(config.priorityFee)
  const limits = [config.units, config.loadedBytes, config.heapBytes]
  let mask = config.priorityFee === undefined ? 0 : 3
  for (const [index, limit] of limits.entries()) if (limit !== undefined) mask |= 4 << index
  return Buffer.concat([
    Uint8Array.of(0x81, signers.length, 0, readonly.length),
    u32(mask),
    blockhash,
    Uint8Array.of(instructions.length, keys.length),
    ...keys,
    fee,
    ...limits.flatMap((limit) => (limit === undefined ? [] : [u32(limit)])),
    ...instructions.map(({ program, accounts, data }) =>
      Uint8Array.of(program, accounts.length, data.length & 0xff, data.length >> 8),
    ),
    ...instructions.flatMap(({ accounts, data }) => [Uint8Array.from(accounts), data]),
  ])
}

export function v1Transaction(parts: V1Parts): Uint8Array {
  const message = v1Message(parts)
  return Buffer.concat([message, ...parts.signers.map((signer) => signer.sign(message))])
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
