// What a race compares, and which kinds of endpoints can show it.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import type { Target } from '../target.ts'

export const raceKinds = ['geyser', 'websocket', 'rpc', 'shreds', 'metrics'] as const
export type RaceKind = (typeof raceKinds)[number]
export type RaceTarget = Target<RaceKind>

export const units = ['transaction', 'slot', 'account', 'block'] as const
export type Unit = (typeof units)[number]

const shown: Readonly<Record<RaceKind, readonly Unit[]>> = {
  geyser: ['transaction', 'slot', 'account'],
  websocket: ['transaction', 'slot', 'account'],
  rpc: ['slot'],
  shreds: ['transaction', 'slot'],
  // Blocks of the execution chain, not of Solana.
  metrics: ['block'],
}

/** Kinds that several connections can read at once; a datagram goes to one socket. */
export function canRaceItself({ kind }: RaceTarget): boolean {
  return kind !== 'shreds'
}

/** The unit of the race: the one given, else the first that all kinds show. */
export function unitOf(targets: readonly RaceTarget[], given: string | undefined): Outcome<Unit> {
  const possible = units.filter((unit) => targets.every(({ kind }) => shown[kind].includes(unit)))
  const unit = units.find((one) => one === given)
  if (unit === undefined) {
    const [first] = possible
    if (first !== undefined) return accept(first)
    const kinds = targets.map(({ kind }) => `${kind} (${shown[kind].join(', ')})`)
    return refuse('invalid', 'usage', `no unit is shown by all endpoints: ${kinds.join(', ')}`)
  }
  const blind = targets.find(({ kind }) => !shown[kind].includes(unit))
  if (blind === undefined) return accept(unit)
  const { label, kind } = blind
  const others = shown[kind].join(', ')
  return refuse('invalid', 'usage', `${label} cannot show --unit ${unit}: ${kind} shows ${others}`)
}
