// Geyser nodes without sockets: each answers GetSlot and SubscribeReplayInfo as a test says, and
// sends what the test makes it send.
import { accept, type Outcome } from '../../src/base/errors.ts'
import { BackWriter, ProtoReader } from '../../src/base/protobuf.ts'
import { blockMetaUpdate, slotUpdate } from '../../src/chain/solana/received-batch.ts'
import { type SlotStatus, slotStatus } from '../../src/chain/solana/updates.ts'
import { type GeyserTarget, lost, notAnswered } from '../../src/upstream/geyser/geyser-client.ts'
import type {
  BatchListener,
  BatchStream,
  GeyserConnection,
} from '../../src/upstream/geyser/ingest.ts'
import { batchFrom, messageOf } from './geyser-messages.ts'

const fromSlotField = 11

export class ScriptedGeyser {
  slot = 1_000
  /** The first slot that it can replay; null when it has no replay. */
  first: number | null = 0
  isDown = false
  /** It has no block yet, and refuses to say which slot it is in. */
  isInFirstSlot = false
  /** Of its newest finalized block. */
  blockhash = 'of this chain'
  /** What happens to a subscription instead of an opened stream: a gRPC status. */
  refuse: ((fromSlot: number | null) => number | null) | null = null
  /** It takes subscriptions, and never opens their streams. */
  isMute = false
  /** Of every subscription; null for live updates only. */
  readonly fromSlots: (number | null)[] = []
  #listener: BatchListener | null = null

  get isFollowed(): boolean {
    return this.#listener !== null
  }

  /** A whole empty block at each slot, processed; those `finality` slots before are finalized. */
  send(slots: readonly number[], finality = 4): void {
    for (const slot of slots) {
      this.slot = slot
      this.#sendOne(slot, slotStatus.processed)
      if (slot >= finality) this.#sendOne(slot - finality, slotStatus.finalized)
    }
  }

  die(): void {
    this.isDown = true
    const listener = this.#listener
    this.#listener = null
    listener?.ended(lost)
  }

  connect(): GeyserConnection {
    return {
      call: async (method) => this.#answer(method),
      subscribe: (request, listener) => this.#subscribe(request, listener),
      close: () => {
        this.#listener = null
      },
    }
  }

  #answer(method: string): Outcome<Uint8Array> {
    if (this.isDown) return notAnswered(lost)
    if (method === 'GetSlot' && !this.isInFirstSlot) return accept(numberMessage(this.slot))
    if (method === 'GetLatestBlockhash') {
      const writer = new BackWriter()
      writer.string(2, this.blockhash)
      writer.numberAlways(1, this.slot - 32)
      return accept(writer.take())
    }
    if (method === 'SubscribeReplayInfo' && this.first !== null)
      return accept(numberMessage(this.first))
    return notAnswered({ kind: 'status', code: 12, details: '' })
  }

  #subscribe(request: Uint8Array, listener: BatchListener): BatchStream {
    const from = fromSlotIn(request)
    this.fromSlots.push(from)
    const code = this.refuse?.(from) ?? null
    if (code !== null) {
      listener.ended({ kind: 'status', code, details: '' })
      return { send() {}, cancel() {} }
    }
    this.#listener = listener
    if (!this.isMute) listener.opened()
    return {
      send() {},
      cancel: () => {
        this.#listener = null
      },
    }
  }

  #sendOne(slot: number, status: SlotStatus): void {
    const moment = { slot, createdAtMs: 1 }
    const meta = blockMetaUpdate(moment, {
      blockhash: `hash${slot}`,
      parentSlot: slot - 1,
      parentBlockhash: `hash${slot - 1}`,
      blockTime: 1,
      blockHeight: slot,
      executedTransactionCount: 0,
      entriesCount: 0,
      rewards: [],
    })
    const update = slotUpdate(moment, { parent: slot - 1, status })
    const messages = status === slotStatus.processed ? [meta, update] : [update]
    this.#listener?.batch(batchFrom(messages.map((one) => messageOf(one))))
  }
}

/** Connects to the nodes by their addresses. */
export function scriptedIngest(nodes: Readonly<Record<string, ScriptedGeyser>>) {
  return { connect: async ({ address }: GeyserTarget) => nodes[address]!.connect() }
}

function numberMessage(value: number): Uint8Array {
  const writer = new BackWriter()
  writer.numberAlways(1, value)
  return writer.take()
}

function fromSlotIn(request: Uint8Array): number | null {
  const reader = new ProtoReader(request)
  while (reader.next()) if (reader.field === fromSlotField) return reader.number
  return null
}
