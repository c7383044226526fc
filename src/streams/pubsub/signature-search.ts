// Finds a transaction that landed before its signature was subscribed to, in the log.
// A transaction lands within the life of a blockhash, so a bounded number of slots is read; a few
// searches run at once, the others wait.
import { keyOf } from '../../chain/solana/keys.ts'
import { errText } from '../../chain/solana/ui-meta.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import type { ReplaySource } from '../hub/hub.ts'
import type { LandedSignature, PubsubChain } from './chain.ts'
import type { SignatureParams } from './read-params.ts'

/** More than the 150 blocks of a blockhash, with the slots that are skipped between them. */
const SLOTS_MAX = 512
const UPDATES_PER_TURN = 256
const RUNNING_MAX = 4

export class SignatureSearch {
  readonly #chain: Pick<PubsubChain, 'hub' | 'streamLog'>
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(chain: Pick<PubsubChain, 'hub' | 'streamLog'>) {
    this.#chain = chain
  }

  /** With at least the commitment of the subscription; null when it is not there. */
  async find(
    params: SignatureParams,
    fromSlot: number,
    isWanted: () => boolean,
  ): Promise<(LandedSignature & { readonly text: string }) | null> {
    if (this.#running >= RUNNING_MAX)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#running++
    try {
      const source = this.#open(params, fromSlot)
      return source === null ? null : await search(source, params, fromSlot + SLOTS_MAX, isWanted)
    } finally {
      this.#running--
      this.#waiting.shift()?.()
    }
  }

  #open({ commitment }: SignatureParams, from: number): ReplaySource<SolanaUpdate> | null {
    const { hub, streamLog } = this.#chain
    const fromSlot = Math.max(from, (streamLog ?? hub).oldestSlot ?? 0)
    const options = { commitment, fromSlot, wantsBlocks: false }
    return streamLog?.replay(options) ?? hub.replay(commitment, fromSlot)
  }
}

async function search(
  source: ReplaySource<SolanaUpdate>,
  { key, commitment }: SignatureParams,
  slotMax: number,
  isWanted: () => boolean,
) {
  for (let seen = 0; isWanted() && !source.isLost; seen++) {
    if (seen % UPDATES_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve))
    if (source.isLost) break
    const update = source.next()
    if (update === null) return null
    if (update === 'loading')
      await new Promise<void>((resolve) => {
        source.onLoaded = resolve
      })
    else if (update.kind === 'transaction' && keyOf(update.signature) === key)
      return { slot: update.slot, err: null, text: errText(update.err), commitment }
    else if (update.slot > slotMax && update.kind === 'transaction') return null
  }
  return null
}
