// The keys of a message with what they may do, for `jsonParsed`. Thread: any (pure).
import type { MessageContent, MetaContent } from '../geyser-content.ts'
import { keyText } from '../key-text.ts'
import { keyOf } from '../keys.ts'
import { programs, sysvarOwner, sysvars } from '../programs.ts'

/** Nobody writes these, whatever a message asks for. */
const reserved = new Set(
  [
    ...Object.values(sysvars),
    sysvarOwner,
    programs.system,
    programs.computeBudget,
    programs.addressLookupTable,
    programs.stake,
    programs.vote,
    programs.config,
    programs.nativeLoader,
    programs.loaderV1,
    programs.loaderV2,
    programs.upgradeableLoader,
    programs.ed25519,
    programs.secp256k1,
    programs.secp256r1,
  ].map(keyOf),
)
const upgradeableLoader = keyOf(programs.upgradeableLoader)

export function parsedKeys(
  message: MessageContent,
  loaded: Pick<MetaContent, 'loadedReadonlyAddresses' | 'loadedWritableAddresses'>,
) {
  const called = new Set(message.instructions.map(({ programIdIndex }) => programIdIndex))
  // A program is not written by those who call it, save where its loader is there to change it.
  const isUpgrading = message.accountKeys.some((key) => keyOf(key) === upgradeableLoader)
  const listed = message.accountKeys.map((key, index) => ({
    pubkey: keyText(key),
    signer: index < message.numRequiredSignatures,
    source: 'transaction',
    writable:
      isWritable(message, index) &&
      !reserved.has(keyOf(key)) &&
      (isUpgrading || !called.has(index)),
  }))
  const looked = (keys: readonly Uint8Array[], writable: boolean) =>
    keys.map((key) => ({
      pubkey: keyText(key),
      signer: false,
      source: 'lookupTable',
      writable: writable && !reserved.has(keyOf(key)),
    }))
  return [
    ...listed,
    ...looked(loaded.loadedWritableAddresses, true),
    ...looked(loaded.loadedReadonlyAddresses, false),
  ]
}

function isWritable(message: MessageContent, index: number): boolean {
  const { accountKeys, numRequiredSignatures: signers } = message
  if (index < signers) return index < signers - message.numReadonlySignedAccounts
  return index < accountKeys.length - message.numReadonlyUnsignedAccounts
}
