// A slow, obvious version of what analysis/block-text.ts writes: objects by JSON-RPC's names.
import {
  EventType,
  txnAccessListEntry,
  txnAuthListEntry,
  txnHeaderStart,
} from '../../src/chain/evm/event-payload.ts'
import { hexOf, quantityOf } from '../../src/chain/evm/hex.ts'
import { readU32, readU64, readU256 } from '../../src/chain/evm/words.ts'

interface InBlock {
  readonly blockHash: string
  readonly blockNumber: number
  readonly baseFee: bigint
}

type Fields = Record<string, unknown>

interface Parts {
  header?: Uint8Array
  readonly accessList: Uint8Array[]
  readonly authList: Uint8Array[]
}

const headBytes = 16

export function transactionsOf(records: Uint8Array, block: InBlock): Fields[] {
  const all: Parts[] = []
  eachRecord(records, (type, index, payload) => {
    all[index] ??= { accessList: [], authList: [] }
    const parts = all[index]
    if (type === EventType.TxnHeaderStart) parts.header = payload
    else if (type === EventType.TxnAccessListEntry) parts.accessList.push(payload)
    else parts.authList.push(payload)
  })
  return all.flatMap((parts, index) =>
    parts?.header === undefined ? [] : [transactionOf(parts.header, parts, index, block)],
  )
}

function eachRecord(
  records: Uint8Array,
  take: (type: number, index: number, payload: Uint8Array) => void,
): void {
  for (let at = 0; at + headBytes <= records.length; ) {
    const length = readU32(records, at + 8)
    const from = at + headBytes
    take(readU32(records, at), readU32(records, at + 4) - 1, records.subarray(from, from + length))
    at = (from + length + 7) & ~7
  }
}

function transactionOf(header: Uint8Array, parts: Parts, index: number, block: InBlock): Fields {
  const type = header[txnHeaderStart.type]!
  const parity = header[txnHeaderStart.parity]!
  const chainId = readU256(header, txnHeaderStart.chainId)
  const dataBytes = readU32(header, txnHeaderStart.dataLength)
  const isCreation = header[txnHeaderStart.isCreation] !== 0
  return {
    blockHash: block.blockHash,
    blockNumber: quantityOf(block.blockNumber),
    transactionIndex: quantityOf(index),
    hash: hexOf(header, txnHeaderStart.hash, 32),
    type: quantityOf(type),
    from: hexOf(header, txnHeaderStart.sender, 20),
    to: isCreation ? null : hexOf(header, txnHeaderStart.to, 20),
    nonce: quantityOf(readU64(header, txnHeaderStart.nonce)),
    gas: quantityOf(readU64(header, txnHeaderStart.gasLimit)),
    value: quantityOf(readU256(header, txnHeaderStart.value)),
    input: hexOf(header, txnHeaderStart.size, dataBytes),
    ...feesOf(header, type, block.baseFee),
    ...(type === 0 && chainId === 0n ? {} : { chainId: quantityOf(chainId) }),
    ...(type === 0 ? {} : { accessList: parts.accessList.map(accessOf) }),
    ...(type === 3 ? blobsOf(header, dataBytes) : {}),
    ...(type === 4 ? { authorizationList: parts.authList.map(authorizationOf) } : {}),
    v: quantityOf(type === 0 ? legacyV(chainId, parity) : parity),
    ...(type === 0 ? {} : { yParity: quantityOf(parity) }),
    r: quantityOf(readU256(header, txnHeaderStart.r)),
    s: quantityOf(readU256(header, txnHeaderStart.s)),
  }
}

/** `gasPrice` is what was paid: the bid, or base fee and tip up to the cap. */
function feesOf(header: Uint8Array, type: number, baseFee: bigint): Fields {
  const maxFee = readU256(header, txnHeaderStart.maxFee)
  if (type < 2) return { gasPrice: quantityOf(maxFee) }
  const tip = readU256(header, txnHeaderStart.maxPriorityFee)
  const isCapped = baseFee + tip > maxFee
  return {
    gasPrice: quantityOf(isCapped ? maxFee : baseFee + tip),
    maxFeePerGas: quantityOf(maxFee),
    maxPriorityFeePerGas: quantityOf(tip),
  }
}

/** Without replay protection 27 or 28, with it the chain's. */
function legacyV(chainId: bigint, parity: number): bigint {
  return chainId === 0n ? 27n + BigInt(parity) : 35n + 2n * chainId + BigInt(parity)
}

function blobsOf(header: Uint8Array, dataBytes: number): Fields {
  const count = readU32(header, txnHeaderStart.blobCount)
  const from = txnHeaderStart.size + dataBytes
  return {
    maxFeePerBlobGas: quantityOf(readU256(header, txnHeaderStart.maxBlobFee)),
    blobVersionedHashes: Array.from({ length: count }, (_, n) => hexOf(header, from + n * 32, 32)),
  }
}

function accessOf(entry: Uint8Array): Fields {
  const count = readU32(entry, txnAccessListEntry.keyCount)
  return {
    address: hexOf(entry, txnAccessListEntry.address, 20),
    storageKeys: Array.from({ length: count }, (_, n) =>
      hexOf(entry, txnAccessListEntry.size + n * 32, 32),
    ),
  }
}

function authorizationOf(entry: Uint8Array): Fields {
  return {
    chainId: quantityOf(readU256(entry, txnAuthListEntry.chainId)),
    address: hexOf(entry, txnAuthListEntry.address, 20),
    nonce: quantityOf(readU64(entry, txnAuthListEntry.nonce)),
    yParity: quantityOf(entry[txnAuthListEntry.parity]!),
    r: quantityOf(readU256(entry, txnAuthListEntry.r)),
    s: quantityOf(readU256(entry, txnAuthListEntry.s)),
  }
}
