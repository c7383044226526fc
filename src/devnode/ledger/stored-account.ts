// Packs accounts for the journal and the snapshots. Thread: main of the devnode.
import { ByteReader, type ByteWriter } from './bytes.ts'
import type { LedgerAccount } from './ledger.ts'

export function writeAccount(writer: ByteWriter, account: LedgerAccount): void {
  writer.raw(account.pubkey).raw(account.owner).u64(account.lamports).u64(account.rentEpoch)
  writer
    .u8(account.executable ? 1 : 0)
    .number(account.slot)
    .u64(account.writeVersion)
  writer.bytes(account.data)
}

export function* readAccounts(bytes: Uint8Array): IterableIterator<LedgerAccount> {
  const reader = new ByteReader(bytes)
  while (!reader.isAtEnd)
    yield {
      pubkey: new Uint8Array(reader.raw(32)),
      owner: new Uint8Array(reader.raw(32)),
      lamports: reader.u64(),
      rentEpoch: reader.u64(),
      executable: reader.u8() === 1,
      slot: reader.number(),
      writeVersion: reader.u64(),
      data: new Uint8Array(reader.bytes()),
    }
}
