// Transactions with tips of every kind, built and signed by @solana/kit as a customer would.
import {
  AccountRole,
  type Address,
  address,
  appendTransactionMessageInstructions,
  type Blockhash,
  createTransactionMessage,
  generateKeyPairSigner,
  getTransactionEncoder,
  type Instruction,
  type KeyPairSigner,
  pipe,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'

export const systemProgram = address('11111111111111111111111111111111')
export const anyBlockhash = encodeBase58(new Uint8Array(32).fill(7))

export function newAddress(): Address {
  return address(encodeBase58(crypto.getRandomValues(new Uint8Array(32))))
}

export interface TransferOptions {
  readonly from: KeyPairSigner | Address
  readonly to: string
  readonly lamports: bigint
  /** The destination is asked for read-only. */
  readonly isReadonly?: boolean
  /** The destination is in this lookup table. */
  readonly table?: Address
  readonly extraData?: number
}

export function transfer(options: TransferOptions): Instruction {
  const { from, to, lamports, table } = options
  const data = new Uint8Array(12 + (options.extraData ?? 0))
  const view = new DataView(data.buffer)
  view.setUint32(0, 2, true)
  view.setBigUint64(4, lamports, true)
  const source =
    typeof from === 'string'
      ? { address: from, role: AccountRole.WRITABLE }
      : { address: from.address, role: AccountRole.WRITABLE_SIGNER, signer: from }
  const role = options.isReadonly ? AccountRole.READONLY : AccountRole.WRITABLE
  const target =
    table === undefined
      ? { address: address(to), role }
      : { address: address(to), role, addressIndex: 3, lookupTableAddress: table }
  return { programAddress: systemProgram, accounts: [source, target], data } as Instruction
}

/** System Program TransferWithSeed: the third account is the destination. */
export function transferWithSeed(from: KeyPairSigner, to: string, lamports: bigint): Instruction {
  const data = Buffer.alloc(4 + 8 + 8 + 4 + 32)
  data.writeUInt32LE(11, 0)
  data.writeBigUInt64LE(lamports, 4)
  data.writeBigUInt64LE(4n, 12)
  data.write('seed', 20)
  return {
    programAddress: systemProgram,
    accounts: [
      { address: newAddress(), role: AccountRole.WRITABLE },
      { address: from.address, role: AccountRole.READONLY_SIGNER, signer: from },
      { address: address(to), role: AccountRole.WRITABLE },
    ],
    data,
  } as Instruction
}

/** A call of some program that is handed what a transfer inside it would need. */
export function innerTransfer(from: KeyPairSigner, to: string): Instruction {
  const { accounts, data } = transfer({ from, to, lamports: 5_000_000n })
  const more = { address: systemProgram, role: AccountRole.READONLY }
  return { programAddress: newAddress(), accounts: [...accounts!, more], data: data! }
}

export async function sign(
  payer: KeyPairSigner,
  instructions: readonly Instruction[],
  options: { readonly blockhash?: string; readonly version?: 'legacy' | 0 } = {},
): Promise<Uint8Array> {
  const blockhash = (options.blockhash ?? anyBlockhash) as Blockhash
  const message = pipe(
    createTransactionMessage({ version: options.version ?? 0 }),
    (m) => setTransactionMessageFeePayerSigner(payer, m),
    (m) =>
      setTransactionMessageLifetimeUsingBlockhash(
        { blockhash, lastValidBlockHeight: 1_000_000_000n },
        m,
      ),
    (m) => appendTransactionMessageInstructions([...instructions], m),
  )
  // Reason for the cast: the test's instructions carry the signers that their types leave out.
  const signed = await signTransactionMessageWithSigners(message as never)
  return Uint8Array.from(getTransactionEncoder().encode(signed as never))
}

export function newPayer(): Promise<KeyPairSigner> {
  return generateKeyPairSigner()
}
