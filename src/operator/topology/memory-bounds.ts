// Sums up the memory that the components of the topology may take at most, by their own bounds.
// What no constant bounds is named instead: connections, customers, accounts. What a program takes
// beside its bounds (code, heap with garbage, allocator) is an allowance, which nothing enforces:
// V8 alone would let a heap grow to gigabytes.
import { recentBytes } from '../../devnode/config.ts'
import { yellowstoneBounds } from '../../streams/geyser/hub.ts'
import { unfinalizedBytesInitial } from '../../streams/hub/hub.ts'
import { defaultSet, singleNodeSet } from '../../upstream/config.ts'
import type { Config } from '../config/config.ts'
import type { Owned, Topology } from './lifecycle.ts'

/** What a program takes beside its bounds, measured by the soak of the whole service. */
export const programBytes = 512 * 1024 * 1024

/** The devnode: blocks in memory, what its own stream replays or has not finalized. */
export const devnodeBytes =
  programBytes + recentBytes + yellowstoneBounds.replayBytesMax + unfinalizedBytesInitial

/** Of all sets of nodes, with that of the embedded chain. */
export function perSet(most: number): (config: Config) => number {
  return ({ upstreams }) => most * new Set([defaultSet, ...Object.keys(upstreams)]).size
}

/** Of all sets, by the key that bounds it in each. */
export function ofSets(key: 'cacheBytes' | 'streamAnswerBytes' | 'streamHistoryBytes') {
  return ({ upstreams }: Config) =>
    Object.values({ [defaultSet]: singleNodeSet({}), ...upstreams }).reduce(
      (sum, set) => sum + set[key],
      0,
    )
}

export interface MemoryBounds {
  readonly bytes: number
  readonly rows: readonly {
    readonly component: string
    readonly name: string
    readonly bytes: number
  }[]
  /** Memory without a constant bound: component, name and what it depends on. */
  readonly unbounded: readonly string[]
}

export function memoryBoundsOf(topology: Topology, config: Config): MemoryBounds {
  const enabled = Object.entries(topology).filter(
    ([, { isEnabled }]) => isEnabled?.({ config }) ?? true,
  )
  const owned = enabled.flatMap(([component, { owns = [] }]) =>
    owns.filter(isMemory).map((one) => ({ component, ...one })),
  )
  const own = { component: 'server', name: 'the program itself', bytes: programBytes }
  const rows = owned.flatMap(({ component, name, memory }) =>
    memory === undefined ? [] : [{ component, name, bytes: memory(config) }],
  )
  return {
    bytes: rows.reduce((sum, { bytes }) => sum + bytes, own.bytes),
    rows: [own, ...rows],
    unbounded: owned
      .filter(({ memory }) => memory === undefined)
      .map(({ component, name, bound }) => `${component}: ${name} (${bound})`),
  }
}

/** A thread's own memory is part of its process; a file is none. */
function isMemory({ kind, memory }: Owned): boolean {
  return memory !== undefined || !['file', 'thread'].includes(kind)
}
