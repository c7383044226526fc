// Threads, queues, hubs and caches of the component `chains`, with their bounds.
import { gatewayBounds } from '../../streams/geyser/hub.ts'
import { unfinalizedBytesInitial } from '../../streams/hub/hub.ts'
import { lentBytesMax } from '../../streams/segments/segment-format.ts'
import { waitingBytesMax } from '../../streams/segments/stream-log.ts'
import { inFlightBytesMax } from '../../upstream/geyser/ingest.ts'
import { bytes, type Owned, restarted, vital } from './lifecycle.ts'
import { ofSets, perSet } from './memory-bounds.ts'

const { replaySlots, replayMs, replayBytesMax } = gatewayBounds
const replay = `replay: ${replayMs / 1000} s or ${replaySlots} slots, ${bytes(replayBytesMax)}`
const cache = (name: string, key: 'streamAnswerBytes' | 'streamHistoryBytes') =>
  ({ kind: 'cache', name, bound: `upstreams.<set>.${key}`, memory: ofSets(key) }) as const

export const chainsOwned: readonly Owned[] = [
  { kind: 'thread', name: 'geyser', bound: 'one thread per set', restart: vital },
  {
    kind: 'queue',
    name: 'batches of updates, per set',
    bound: `${bytes(inFlightBytesMax)}, then the node is held back`,
    memory: perSet(inFlightBytesMax),
  },
  {
    kind: 'hub',
    name: 'Solana updates, one hub per set',
    bound: `${replay}; not finalized: ${bytes(unfinalizedBytesInitial)}`,
    memory: perSet(replayBytesMax + unfinalizedBytesInitial),
  },
  { kind: 'thread', name: 'stream-log', bound: 'one thread per set', restart: restarted },
  {
    kind: 'queue',
    name: 'slots to be written, per set',
    bound: `${bytes(waitingBytesMax)} (${bytes(lentBytesMax)} as copies), then the log begins anew`,
    memory: perSet(waitingBytesMax),
  },
  { kind: 'file', name: '<data>/streams', bound: 'streams.keep, streams.bytes' },
  cache('accounts kept current by the stream', 'streamAnswerBytes'),
  cache('transactions of the last blocks of the stream', 'streamHistoryBytes'),
]
