// Computes which accounts a transaction may write: those its message declares writable, minus
// those that the runtime demotes.
// The same rules as agave: reserved keys are never written, and a program is
// not written by a transaction that calls it unless the upgradeable loader is among the keys.
import { decodeKey, keyOf } from './base58.ts'
import type { MessageContent, MetaContent } from './geyser-decode.ts'
import { loaderV4, programs, stakeConfig, sysvarOwner, sysvars } from './programs.ts'

/** Native programs and sysvars from programs.ts, then those that are used only here. */
const reserved = new Set(
  [
    ...Object.values(sysvars),
    sysvarOwner,
    loaderV4,
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
    programs.zkElGamalProof,
    stakeConfig,
    ...[
      'Feature111111111111111111111111111111111111',
      'ZkTokenProof1111111111111111111111111111111',
    ].map((text) => decodeKey(text)!),
  ].map(keyOf),
)
const upgradeableLoader = keyOf(programs.upgradeableLoader)

/** For every key of the transaction, static ones first, then loaded: whether it may be written. */
export function writeLocks(
  message: MessageContent,
  loaded: Pick<MetaContent, 'loadedReadonlyAddresses' | 'loadedWritableAddresses'>,
): boolean[] {
  const { loadedWritableAddresses: writable, loadedReadonlyAddresses: readonly } = loaded
  const names = [...message.accountKeys, ...writable, ...readonly].map(keyOf)
  const called = new Set(message.instructions.map(({ programIdIndex }) => programIdIndex))
  const isUpgrading = names.includes(upgradeableLoader)
  const loadedEnd = message.accountKeys.length + writable.length
  return names.map((name, index) => {
    const isAsked =
      index < message.accountKeys.length ? isDeclaredWritable(message, index) : index < loadedEnd
    return isAsked && !reserved.has(name) && (isUpgrading || !called.has(index))
  })
}

/** Whether the message's header declares one of its static keys writable. */
function isDeclaredWritable(message: MessageContent, index: number): boolean {
  const { accountKeys, numRequiredSignatures: signers } = message
  if (index < signers) return index < signers - message.numReadonlySignedAccounts
  return index < accountKeys.length - message.numReadonlyUnsignedAccounts
}
