// A customer as yellowstone's own clients are: reads block metas and transactions, and comes back
// with from_slot when the stream ends. Remembers what came twice on one stream.
import { Client, credentials, type ServiceError } from '@grpc/grpc-js'
import { retractionReasons, slotStatus } from '../../src/chain/solana/updates.ts'
import { codec, Subscription, withToken } from './grpc-stage.ts'
import { until } from './until.ts'

export interface SeenBlock {
  readonly slot: number
  readonly parentSlot: number
  readonly blockhash: string
  readonly parentBlockhash: string
}

const keys = { accountInclude: [], accountExclude: [], accountRequired: [] }

export class Follower {
  readonly blocks = new Map<number, SeenBlock>()
  readonly signatures = new Map<number, Set<string>>()
  /** Same block or transaction twice on one stream. */
  duplicates = 0
  /** `slot reason` of each retraction, which takes back all of its slot before it. */
  readonly retracted: string[] = []
  /** The newest slot that the stream said is finalized: all of it was retracted that had to be. */
  finalized = -1
  /** Statuses that streams ended with. */
  readonly ends: number[] = []
  readonly #target: string
  readonly #token: string
  readonly #commitment: number
  readonly #client: Client
  readonly #isRetracting: boolean
  #current: Subscription | null = null
  #isStopped = false

  /** `isRetracting`: it asks for retractions and applies them. */
  constructor(target: string, token: string, commitment: number, isRetracting = false) {
    this.#isRetracting = isRetracting
    this.#target = target
    this.#token = token
    this.#commitment = commitment
    this.#client = new Client(this.#target, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    })
    this.#open(null)
  }

  get newest(): number {
    return Math.max(-1, ...this.blocks.keys())
  }

  async reaches(slot: number): Promise<void> {
    await until(() => this.newest >= slot, `slot ${slot} at commitment ${this.#commitment}`)
  }

  /** Blocks whose parent is not the block before them. */
  gaps(): string[] {
    const blocks = [...this.blocks.values()].sort((a, b) => a.slot - b.slot)
    return blocks.flatMap((block, at) => {
      const before = blocks[at - 1]
      if (before === undefined) return []
      const isLinked =
        before.slot === block.parentSlot && before.blockhash === block.parentBlockhash
      return isLinked
        ? []
        : [`${before.slot} -> ${block.slot}, whose parent is ${block.parentSlot}`]
    })
  }

  stop(): void {
    this.#isStopped = true
    this.#current?.stream.cancel()
    this.#client.close()
  }

  #open(fromSlot: number | null): void {
    if (this.#isStopped) return
    const metadata = withToken(this.#token)
    if (this.#isRetracting) metadata.set('x-retractions', 'true')
    const stream = new Subscription(this.#client, metadata)
    this.#current = stream
    const onThisStream = new Set<string>()
    stream.stream.on('data', (bytes: Buffer) => {
      // biome-ignore lint/suspicious/noExplicitAny: updates are read field by field, as in a client.
      const update = codec.decode<any>('geyser.SubscribeUpdate', bytes)
      stream.raw.length = 0
      stream.updates.length = 0
      this.#take(update, onThisStream)
    })
    stream.stream.on('error', ({ code }: ServiceError) => {
      this.ends.push(code)
      const next = this.newest < 0 ? null : this.newest
      setTimeout(() => this.#open(next), 200)
    })
    stream.ask({
      transactions: { t: keys },
      blocksMeta: { m: {} },
      ...(this.#isRetracting ? { slots: { s: {} } } : {}),
      commitment: this.#commitment,
      ...(fromSlot === null ? {} : { fromSlot }),
    })
  }

  // biome-ignore lint/suspicious/noExplicitAny: see above.
  #take(update: any, onThisStream: Set<string>): void {
    if (update.retraction) {
      const { slot, reason } = update.retraction
      this.retracted.push(`${slot} ${retractionReasons[reason - 1]}`)
      this.blocks.delete(Number(slot))
      this.signatures.delete(Number(slot))
    } else if (update.slot) {
      const { slot, status } = update.slot
      if (status === slotStatus.finalized) this.finalized = Math.max(this.finalized, Number(slot))
    } else if (update.blockMeta) {
      const { blockhash, parentBlockhash } = update.blockMeta
      const slot = Number(update.blockMeta.slot)
      const parentSlot = Number(update.blockMeta.parentSlot)
      this.blocks.set(slot, { slot, parentSlot, blockhash, parentBlockhash })
      this.#once(`block ${slot}`, onThisStream)
    } else if (update.transaction) {
      const slot = Number(update.transaction.slot)
      const signature = Buffer.from(update.transaction.transaction.signature).toString('base64')
      const signatures = this.signatures.get(slot) ?? new Set()
      signatures.add(signature)
      this.signatures.set(slot, signatures)
      this.#once(`${slot} ${signature}`, onThisStream)
    }
  }

  #once(what: string, onThisStream: Set<string>): void {
    if (onThisStream.has(what)) this.duplicates++
    onThisStream.add(what)
  }
}
