// A geyser node for benches: sends account updates of an exact size, and transactions where asked,
// at a steady rate, slot by slot with metas and statuses, as a validator would. Thread: a process
// of its own. It sends no faster than its reader takes, so that a slow reader slows it down and
// loses nothing. HTTP/2 is written here, as far as it is needed: node:http2 decides the size of
// DATA frames itself, and how many messages share a frame is what a reader's cost depends on.
import { createServer, type Socket } from 'node:net'
import {
  accountUpdate,
  blockMetaUpdate,
  slotUpdate,
  transactionUpdate,
} from '../../../src/chain/solana/received-batch.ts'
import { slotStatus } from '../../../src/chain/solana/updates.ts'
import {
  createdAtSuffix,
  FrameBatch,
  namePrefix,
  SlabPool,
  updateTag,
} from '../../../src/streams/geyser/frame.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { createdAtMs, firstSlot, messageOf, transactionContent } from './grpc-message.ts'

export interface NodeShape {
  /** Bytes of an account update. */
  readonly length: number
  /** Updates of a slot, and how many of them are transactions; the others are accounts. */
  readonly perSlot: number
  readonly transactions: number
  /** Messages that share a DATA frame. */
  readonly perFrame: number
}

const tickMs = 5
/** With more unsent bytes the reader lags. */
const unsentBytesMax = 1024 * 1024
/** Slots after which a slot is processed, confirmed, finalized. */
const statusDepth = [0, 2, 32] as const
const prefix = namePrefix('s')
const pool = new SlabPool()

const type = { data: 0, headers: 1, settings: 4, ping: 6, windowUpdate: 8 } as const
const flag = { endOrAck: 1, endHeaders: 4 } as const
const headBytes = 9
const prefaceBytes = 24
const initialWindowId = 4
/** `:status` 200 and a content-type; and the trailers of a method that is not implemented. */
const okHeaders = Buffer.from('\x88\x0f\x10\x10application/grpc', 'latin1')
const unimplemented = Buffer.from('\x00\x0bgrpc-status\x0212', 'latin1')

let slot = firstSlot
let rate = 0

serveBench({
  open(shape: NodeShape): Promise<number> {
    const server = createServer((socket) => new Connection(socket, shape))
    return new Promise((resolve) => {
      server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port))
    })
  },
  /** Updates per second from now on. */
  pace(updatesPerSecond: number) {
    rate = updatesPerSecond
  },
})

/** Streams updates to the last request that is not ended; unary methods are not implemented. */
class Connection {
  readonly #socket: Socket
  readonly #shape: NodeShape
  #input: Buffer = Buffer.alloc(0)
  #hasPreface = false
  #stream = 0
  /** DATA that waits for the reader. */
  readonly #pending: Buffer[] = []
  /** What the reader allows: on the connection, and on each stream. */
  #window = 65_535
  #streamWindow = 65_535

  constructor(socket: Socket, shape: NodeShape) {
    this.#socket = socket.setNoDelay(true).on('error', () => {})
    this.#shape = shape
    this.#frame(type.settings, 0, 0)
    socket.on('data', (chunk) => this.#read(chunk))
    this.#send()
  }

  #send(): void {
    let due = 0
    let lastMs = performance.now()
    const timer = setInterval(() => {
      if (this.#socket.destroyed) return clearInterval(timer)
      const nowMs = performance.now()
      due += ((nowMs - lastMs) * rate) / 1000
      lastMs = nowMs
      // What the reader did not take in time is not made up for.
      const { perSlot } = this.#shape
      due = Math.min(due, Math.max(rate * 0.05, 2 * perSlot))
      while (due >= perSlot && this.#stream > 0 && this.#sendSlot()) due -= perSlot
    }, tickMs)
  }

  /** False when the reader has not taken the last slot. */
  #sendSlot(): boolean {
    this.#pump()
    if (this.#pending.length > 0) return false
    const messages = slotMessages(this.#shape, slot++)
    for (let at = 0; at < messages.length; at += this.#shape.perFrame)
      this.#pending.push(Buffer.concat(messages.slice(at, at + this.#shape.perFrame)))
    this.#pump()
    return true
  }

  #pump(): void {
    if (this.#socket.writableLength >= unsentBytesMax) return
    const frames: Buffer[] = []
    let sent = 0
    for (const data of this.#pending) {
      if (data.length > Math.min(this.#window, this.#streamWindow)) break
      frames.push(head(data.length, type.data, 0, this.#stream), data)
      this.#window -= data.length
      this.#streamWindow -= data.length
      sent++
    }
    this.#pending.splice(0, sent)
    if (sent > 0) this.#socket.write(Buffer.concat(frames))
  }

  #read(chunk: Buffer): void {
    let input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk])
    if (!this.#hasPreface && input.length >= prefaceBytes) {
      this.#hasPreface = true
      input = input.subarray(prefaceBytes)
    }
    while (this.#hasPreface && input.length >= headBytes) {
      const end = headBytes + input.readUIntBE(0, 3)
      if (input.length < end) break
      this.#answer(input[3]!, input[4]!, input.readUInt32BE(5), input.subarray(headBytes, end))
      input = input.subarray(end)
    }
    this.#input = input
  }

  #answer(kind: number, flags: number, stream: number, payload: Buffer): void {
    const hasEnd = (flags & flag.endOrAck) !== 0
    if (kind === type.settings && !hasEnd) {
      for (let at = 0; at < payload.length; at += 6)
        if (payload.readUInt16BE(at) === initialWindowId)
          this.#streamWindow = payload.readUInt32BE(at + 2)
      this.#frame(type.settings, flag.endOrAck, 0)
    } else if (kind === type.ping && !hasEnd) this.#frame(type.ping, flag.endOrAck, 0, payload)
    else if (kind === type.windowUpdate && stream === 0) this.#window += payload.readUInt32BE(0)
    else if (kind === type.windowUpdate && stream === this.#stream)
      this.#streamWindow += payload.readUInt32BE(0)
    else if (kind === type.headers && !hasEnd) {
      this.#stream = stream
      this.#frame(type.headers, flag.endHeaders, stream, okHeaders)
    } else if (kind === type.data && hasEnd) {
      if (this.#stream === stream) this.#stream = 0
      this.#frame(type.headers, flag.endHeaders | flag.endOrAck, stream, unimplemented)
    }
  }

  #frame(kind: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): void {
    this.#socket.write(Buffer.concat([head(payload.length, kind, flags, stream), payload]))
  }
}

function head(length: number, kind: number, flags: number, stream: number): Buffer {
  const bytes = Buffer.allocUnsafe(headBytes)
  bytes.writeUIntBE(length, 0, 3)
  bytes[3] = kind
  bytes[4] = flags
  bytes.writeUInt32BE(stream, 5)
  return bytes
}

/** All updates of a slot, as gRPC messages. */
function slotMessages({ length, perSlot, transactions }: NodeShape, number: number): Buffer[] {
  const moment = { slot: number, createdAtMs }
  const account = messageFrom(updateTag.account, accountUpdate(moment, messageOf(length)))
  const meta = blockMetaUpdate(moment, {
    blockhash: String(number),
    parentSlot: number - 1,
    parentBlockhash: String(number - 1),
    blockHeight: number,
    blockTime: 1,
    executedTransactionCount: transactions,
    entriesCount: 0,
    rewards: [],
  })
  const bank = { parent: number - 1, status: slotStatus.createdBank }
  return [
    messageFrom(updateTag.slot, slotUpdate(moment, bank)),
    ...Array.from({ length: perSlot - transactions }, () => account),
    ...Array.from({ length: transactions }, (_, index) =>
      messageFrom(
        updateTag.transaction,
        transactionUpdate(moment, { ...transactionContent, index }),
      ),
    ),
    messageFrom(updateTag.blockMeta, meta),
    ...([0, 1, 2] as const).map((status) => {
      const at = { slot: number - statusDepth[status], createdAtMs }
      return messageFrom(updateTag.slot, slotUpdate(at, { parent: at.slot - 1, status }))
    }),
  ]
}

function messageFrom(tag: number, { body }: { readonly body: Uint8Array }): Buffer {
  const batch = new FrameBatch(pool)
  batch.append(tag, prefix, body, createdAtSuffix(createdAtMs))
  return Buffer.concat(batch.take().map(({ bytes }) => bytes))
}
