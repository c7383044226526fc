// Encodes what the chain does as geyser updates, once, and publishes them to the hub.
// Thread: main of the devnode.
//
//   transaction, written accounts -> account updates, transaction update -> hub
//   end of the slot               -> block of updates published before, block meta -> hub
import type { Clock } from '../base/clock.ts'
import { keyOf } from '../chain/solana/keys.ts'
import {
  accountUpdate,
  blockMetaUpdate,
  entryUpdate,
  type Moment,
  slotUpdate,
  transactionUpdate,
} from '../chain/solana/update-build.ts'
import type {
  AccountUpdate,
  EntryUpdate,
  SolanaUpdate,
  TransactionUpdate,
} from '../chain/solana/updates.ts'
import { publishUpdate, type SolanaHub } from '../streams/geyser/hub.ts'
import type { SolanaSink } from './sink.ts'

/** Updates of the open slot. */
interface OpenBlock {
  readonly transactions: TransactionUpdate[]
  /** The last write of each account: a block shows no other. */
  readonly accounts: Map<string, AccountUpdate>
  readonly entries: EntryUpdate[]
}

export function solanaFeed(hub: SolanaHub, clock: Clock): SolanaSink {
  let open = emptyBlock()
  const at = (slot: number): Moment => ({ slot, createdAtMs: clock.nowMs() })
  const publish = (update: SolanaUpdate) => publishUpdate(hub, update)
  const write = (update: AccountUpdate) => {
    open.accounts.set(keyOf(update.pubkey), update)
    publish(update)
  }
  return {
    status({ slot, parent, status }) {
      publish(slotUpdate(at(slot), { parent, status }))
    },
    account(slot, content) {
      write(accountUpdate(at(slot), content))
    },
    transaction(slot, content, written) {
      const moment = at(slot)
      for (const account of written) write(accountUpdate(moment, account))
      const update = transactionUpdate(moment, content)
      open.transactions.push(update)
      publish(update)
    },
    entry(slot, content) {
      const update = entryUpdate(at(slot), content)
      open.entries.push(update)
      publish(update)
    },
    block(slot, content) {
      const moment = at(slot)
      const meta = blockMetaUpdate(moment, content)
      const { transactions, entries } = open
      const accounts = [...open.accounts.values()]
      open = emptyBlock()
      publish({ kind: 'block', ...moment, meta, transactions, accounts, entries })
      publish(meta)
    },
  }
}

function emptyBlock(): OpenBlock {
  return { transactions: [], accounts: new Map(), entries: [] }
}
