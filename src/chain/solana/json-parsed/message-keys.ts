// Lists the keys of a message with their signer and writable flags, for `jsonParsed`.
import type { MessageContent, MetaContent } from '../geyser-content.ts'
import { keyText } from '../key-text.ts'
import { writeLocks } from '../write-locks.ts'

export function parsedKeys(
  message: MessageContent,
  loaded: Pick<MetaContent, 'loadedReadonlyAddresses' | 'loadedWritableAddresses'>,
) {
  const { accountKeys, numRequiredSignatures } = message
  const keys = [
    ...accountKeys,
    ...loaded.loadedWritableAddresses,
    ...loaded.loadedReadonlyAddresses,
  ]
  const locks = writeLocks(message, loaded)
  return keys.map((key, index) => ({
    pubkey: keyText(key),
    signer: index < numRequiredSignatures,
    source: index < accountKeys.length ? 'transaction' : 'lookupTable',
    writable: locks[index]!,
  }))
}
