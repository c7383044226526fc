// Watches for a wallet's transactions and for the current slot.
// Two subscriptions on one endpoint: transactions that name the wallet, and slots.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import type { Observer, Subject } from '../race/observer.ts'
import type { Target } from '../target.ts'

export const watchKinds = ['geyser', 'websocket'] as const
export type WatchTarget = Target<(typeof watchKinds)[number]>

export interface Watch {
  /** The newest slot that the endpoint has shown. */
  slot(): number
  close(): void
}

export interface WatchEvents {
  /** `key` as `signatureKey` makes it. */
  landed(key: string, slot: number, atMs: number): void
  /** The endpoint ended; what lands from now on is not seen. */
  lost(problem: string): void
}

const liveMsMax = 10_000

/** Resolves once both subscriptions are live and a slot is known. */
export async function openWatch(
  { kind, url, token, label }: WatchTarget,
  account: string,
  events: WatchEvents,
): Promise<Outcome<Watch>> {
  // Loaded when it is needed: its clients would slow every command's start.
  const { openObserver } = await import('../race/observe.ts')
  const endpoint = { kind, url: url.href, token }
  const base = { accounts: [account], commitment: 'processed', pollMs: 0 } as const
  const observers: Observer[] = []
  let newest = -1
  let isOpen = false
  let deadline: NodeJS.Timeout | undefined
  const close = () => {
    for (const observer of observers) observer.close()
  }
  const outcome = await new Promise<Outcome<null>>((resolve) => {
    let live = 0
    const check = () => {
      if (live === 2 && newest >= 0) resolve(accept(null))
    }
    const problem = (text: string) => {
      if (isOpen) events.lost(`the watch ended: ${label} ${text}`)
      else resolve(refuse('unavailable', 'no-watch', `${label} ${text}`))
    }
    const open = (unit: Subject['unit'], saw: (key: string, slot: number, atMs: number) => void) =>
      observers.push(
        openObserver(
          endpoint,
          { ...base, unit },
          {
            live() {
              live += 1
              check()
            },
            saw,
            roundTrip() {},
            down: problem,
          },
        ),
      )
    open('transaction', (key, slot, atMs) => events.landed(key, slot, atMs))
    open('slot', (_, slot) => {
      newest = Math.max(newest, slot)
      check()
    })
    deadline = setTimeout(() => problem(`showed no slot within ${liveMsMax / 1000} s`), liveMsMax)
  })
  clearTimeout(deadline)
  if (!outcome.ok) {
    close()
    return outcome
  }
  isOpen = true
  return accept({ slot: () => newest, close })
}
