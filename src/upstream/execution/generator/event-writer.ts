// Builds events one at a time in reused buffers and delivers them to the sink.
// Thread: source worker. Callers fill `payload` from `begin`, set the flow tags, then `emit`.
// Sequence numbers start at 1; payload offsets grow like a real writer's, 16-byte aligned.
import {
  blockFinalized,
  blockQc,
  blockStart,
  blockVerified,
  EventType,
} from '../../../chain/evm/event-payload.ts'
import { descriptor, payloadAlignBytes } from '../../../chain/evm/event-ring.ts'
import { bytesOfHex } from '../../../chain/evm/hex.ts'
import { writeU16, writeU32, writeU64, writeU64Exact, writeU256 } from '../../../chain/evm/words.ts'
import type { ExecutionSink } from '../../ports.ts'
import { type Proposal, type TrafficPlan, writeDigest } from './traffic-plan.ts'

/** Longest payload that the generator writes. */
const payloadBytesMax = 16 * 1024
const two32 = 0x1_0000_0000

export class EventWriter {
  /** Transaction index + 1; 0 outside a transaction. */
  txn = 0
  account = 0
  /** Sequence number of the open block's BlockStart; 0 outside a block. */
  blockSeqno = 0
  /** Nanoseconds since the time given to `setTime`. */
  timeNs = 0
  readonly #sink: ExecutionSink
  readonly #payload = new Uint8Array(payloadBytesMax)
  readonly #descriptor = new Uint8Array(descriptor.bytes)
  /** One view per payload length that occurred, so that an event allocates no object. */
  readonly #views: Uint8Array[] = []
  #seqno = 0
  #payloadByte = 0
  #baseLow = 0
  #baseHigh = 0

  constructor(sink: ExecutionSink) {
    this.#sink = sink
  }

  get nextSeqno(): number {
    return this.#seqno + 1
  }

  /** Sets the wall time that `timeNs` counts from; milliseconds since 1970, fractions allowed. */
  setTime(wallMs: number): void {
    // Computed from whole microseconds: nanoseconds since 1970 do not fit a double.
    const baseNs = BigInt(Math.round(wallMs * 1000)) * 1000n
    this.#baseLow = Number(baseNs & 0xffff_ffffn)
    this.#baseHigh = Number(baseNs >> 32n)
    this.timeNs = 0
  }

  /** The scratch payload with its first `size` bytes zero. */
  begin(size: number): Uint8Array {
    return this.#payload.fill(0, 0, size)
  }

  emit(type: number, size: number): void {
    const bytes = this.#descriptor
    this.#seqno += 1
    writeU64(bytes, descriptor.seqno, this.#seqno)
    writeU16(bytes, descriptor.type, type)
    writeU32(bytes, descriptor.payloadSize, size)
    const low = this.#baseLow + this.timeNs
    writeU32(bytes, descriptor.timeNs, low % two32)
    writeU32(bytes, descriptor.timeNs + 4, this.#baseHigh + Math.floor(low / two32))
    writeU64(bytes, descriptor.payloadOffset, this.#payloadByte)
    writeU64(bytes, descriptor.blockSeqno, this.blockSeqno)
    writeU32(bytes, descriptor.txn, this.txn)
    writeU32(bytes, descriptor.account, this.account)
    this.#payloadByte += Math.ceil(size / payloadAlignBytes) * payloadAlignBytes
    let view = this.#views[size]
    if (view === undefined) {
      view = this.#payload.subarray(0, size)
      this.#views[size] = view
    }
    this.#sink.event(bytes, view)
  }

  flush(): void {
    this.#sink.flush()
  }
}

// Writes BlockStart and the consensus events of a generated block. Thread: source worker.

/** Chain id of the generated chain. */
export const generatedChainId = 20143
const gasLimit = 200_000_000
const baseFeeWei = 50e9
const epochBlocks = 50_000
// Hashes of empty lists, as in every Ethereum header without ommers and withdrawals.
const noOmmers = bytesOfHex('1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347')!
const noWithdrawals = bytesOfHex(
  '56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421',
)!

export function writeBlockStart(
  writer: EventWriter,
  traffic: TrafficPlan,
  proposal: Proposal,
): void {
  const { number, word, variant } = proposal
  const payload = writer.begin(blockStart.size)
  payload.set(proposal.id, blockStart.id)
  writeU64(payload, blockStart.blockNumber, number)
  writeU64(payload, blockStart.round, roundOf(proposal))
  writeU64(payload, blockStart.epoch, Math.floor(number / epochBlocks))
  const proposedNs = BigInt(Math.round(proposal.startMs * 1000)) * 1000n
  writeU64Exact(payload, blockStart.proposalTimeNs, proposedNs)
  writeU256(payload, blockStart.chainId, generatedChainId)
  payload[blockStart.authorParity] = 2 + (word & 1)
  writeDigest(payload, { at: blockStart.authorX, length: 32 }, proposal.beneficiary, 7, 7, 7)
  payload.set(proposal.parentHash, blockStart.parentHash)
  payload.set(noOmmers, blockStart.ommersHash)
  traffic.writeBeneficiary(payload, blockStart.beneficiary, proposal.beneficiary)
  writeDigest(payload, { at: blockStart.transactionsRoot, length: 32 }, word, variant, 2, 2)
  writeU64(payload, blockStart.number, number)
  writeU64(payload, blockStart.gasLimit, gasLimit)
  writeU64(payload, blockStart.timestamp, Math.floor(proposal.startMs / 1000))
  writeDigest(payload, { at: blockStart.prevRandao, length: 32 }, word, variant, 3, 3)
  writeU256(payload, blockStart.baseFee, baseFeeWei)
  payload.set(noWithdrawals, blockStart.withdrawalsRoot)
  writeU64(payload, blockStart.txnCount, proposal.txnCount)
  writer.emit(EventType.BlockStart, blockStart.size)
}

export type StageName = 'voted' | 'finalized' | 'verified'

/** Consensus events are outside any block: their flow tags are empty. */
export function writeStage(writer: EventWriter, stage: StageName, proposal: Proposal): void {
  const openBlock = writer.blockSeqno
  writer.blockSeqno = 0
  writer.txn = 0
  writer.account = 0
  if (stage === 'voted') {
    const payload = writer.begin(blockQc.size)
    payload.set(proposal.id, blockQc.id)
    writeU64(payload, blockQc.blockNumber, proposal.number)
    writeU64(payload, blockQc.round, roundOf(proposal))
    writeU64(payload, blockQc.epoch, Math.floor(proposal.number / epochBlocks))
    writer.emit(EventType.BlockQc, blockQc.size)
  } else if (stage === 'finalized') {
    const payload = writer.begin(blockFinalized.size)
    payload.set(proposal.id, blockFinalized.id)
    writeU64(payload, blockFinalized.blockNumber, proposal.number)
    writer.emit(EventType.BlockFinalized, blockFinalized.size)
  } else {
    writeU64(writer.begin(blockVerified.size), blockVerified.blockNumber, proposal.number)
    writer.emit(EventType.BlockVerified, blockVerified.size)
  }
  writer.blockSeqno = openBlock
}

/** Rounds count proposals; two are reserved for each number. */
function roundOf(proposal: Proposal): number {
  return proposal.number * 2 + proposal.variant
}
