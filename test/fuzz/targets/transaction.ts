// Transactions of customers, beside the decoders of @solana/kit and @solana/web3.js.
import { ok } from 'node:assert'
import { getCompiledTransactionMessageDecoder, getTransactionDecoder } from '@solana/kit'
import { VersionedTransaction } from '@solana/web3.js'
import { decodeBase58, encodeBase58 } from '../../../src/chain/solana/base58.ts'
import { TransactionLayout } from '../../../src/chain/solana/transaction.ts'
import { sampleTransactions } from '../../testkit/solana-samples.ts'
import { same, type Target } from '../target.ts'

const layout = new TransactionLayout({ v1: true })
const again = new TransactionLayout({ v1: true })

export const transaction: Target = {
  bytesMax: 4200,
  words: [Uint8Array.of(0x80), Uint8Array.of(0x81), Uint8Array.of(0x80, 0x01), new Uint8Array(64)],
  seeds: () => sampleTransactions().map(({ bytes }) => bytes),
  run(input) {
    const problem = layout.decode(input)
    same(again.decode(Buffer.from(input)), problem, 'is stable')
    const text = encodeBase58(input.subarray(0, 200))
    same(decodeBase58(text), input.subarray(0, 200), 'base58 and back')
    const end = layout.version === 1 ? layout.signaturesAt : layout.messageEnd
    if (problem === 'trailing-bytes') ok(end < input.length, 'something follows')
    if (problem !== 'ok') return
    const keys = layout.keyCount + layout.loadedWritable + layout.loadedReadonly
    ok(layout.messageAt <= layout.messageEnd && layout.messageEnd <= input.length, 'message')
    for (let index = 0; index < layout.instructionCount; index++) {
      const end = layout.dataAt[index]! + layout.dataLength[index]!
      ok(end <= input.length && layout.programIndex[index]! < layout.keyCount, 'instruction')
      const at = layout.accountsAt[index]!
      const accounts = input.subarray(at, at + layout.accountsCount[index]!)
      ok(
        accounts.every((account) => account < keys),
        'accounts have keys',
      )
    }
  },
  compare(input) {
    if (input[0]! >= 0x80) return
    const problem = layout.decode(input)
    const theirs = kitView(input)
    if (problem === 'ok') {
      ok(theirs !== null, 'kit reads it')
      same(ownView(input), theirs, 'as kit')
      const versioned = VersionedTransaction.deserialize(input)
      same(versioned.serialize(), input, 'as web3.js')
    }
    // Without its lookups a message of version 0 is whole to kit, one without the count of its
    // instructions too, and to no validator.
    const isWhole = theirs?.version === 'legacy' && theirs.instructions.length > 0
    if (problem === 'truncated') ok(!isWhole || !isReadByWeb3(input), 'is too short to others')
  },
}

function isReadByWeb3(input: Buffer): boolean {
  try {
    VersionedTransaction.deserialize(input)
    return true
  } catch {
    return false
  }
}

function ownView(input: Buffer) {
  const at = (start: number, length: number) => input.subarray(start, start + length)
  const counts = Array.from({ length: layout.instructionCount }, (_, index) => ({
    program: layout.programIndex[index],
    accounts: [...at(layout.accountsAt[index]!, layout.accountsCount[index]!)],
    data: at(layout.dataAt[index]!, layout.dataLength[index]!),
  }))
  return {
    version: layout.version === -1 ? 'legacy' : layout.version,
    signatures: layout.signatureCount,
    header: [layout.requiredSignatures, layout.readonlySigned, layout.readonlyUnsigned],
    keys: Array.from({ length: layout.keyCount }, (_, index) =>
      encodeBase58(at(layout.keysAt + index * 32, 32)),
    ),
    blockhash: encodeBase58(at(layout.blockhashAt, 32)),
    instructions: counts,
  }
}

function kitView(input: Buffer) {
  try {
    const { messageBytes, signatures } = getTransactionDecoder().decode(input)
    // Reason for the cast: the fields of all versions are read.
    const message = getCompiledTransactionMessageDecoder().decode(messageBytes) as never as {
      version: 'legacy' | 0
      header: Record<string, number>
      staticAccounts: readonly string[]
      lifetimeToken: string
      instructions: readonly {
        programAddressIndex: number
        accountIndices?: readonly number[]
        data?: Uint8Array
      }[]
    }
    return {
      version: message.version,
      signatures: Object.keys(signatures).length,
      header: [
        message.header.numSignerAccounts,
        message.header.numReadonlySignerAccounts,
        message.header.numReadonlyNonSignerAccounts,
      ],
      keys: message.staticAccounts,
      blockhash: message.lifetimeToken,
      instructions: message.instructions.map((one) => ({
        program: one.programAddressIndex,
        accounts: [...(one.accountIndices ?? [])],
        data: Buffer.from(one.data ?? []),
      })),
    }
  } catch {
    return null
  }
}
