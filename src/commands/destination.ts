// `sluice destination ...`: manages the address a subscription's shreds are sent to. Thread: main.
// A new address receives only challenges until it is proven by an echo or by `confirm`.
import { accept, type Outcome } from '../base/errors.ts'
import type { Store } from '../subscriptions/store.ts'
import type { By, Subscription } from '../subscriptions/subscription.ts'
import { recordOf } from './output.ts'
import { byOf, reasonFlag, refSpec, withStore, withSubscription } from './registry.ts'
import type { Report, Verb } from './verb.ts'

type Change = (store: Store, id: string, by: By) => Outcome<Subscription>

export const destinationVerbs: readonly Verb[] = [
  {
    words: ['destination', 'set'],
    summary: 'Propose an address; it must be proven before shreds are sent to it.',
    positionals: [refSpec, { name: 'ip:port', doc: 'Literal IPv4:port or [IPv6]:port.' }],
    flags: [reasonFlag],
    run: (call) =>
      withStore(call, (store) => {
        const [ref = '', address = ''] = call.positionals
        const changed = store.setDestination(ref, address, byOf(call))
        return changed.ok ? accept(reportOf(changed.value)) : changed
      }),
  },
  change('confirm', 'Mark the address as proven.', (store, id, by) =>
    store.confirmDestination(id, by),
  ),
  change('pause', 'Stop sending shreds.', (store, id, by) => store.pauseDestination(id, by)),
  change('resume', 'Send shreds again.', (store, id, by) => store.resumeDestination(id, by)),
  change('clear', 'Remove the address.', (store, id, by) => store.clearDestination(id, by), true),
  {
    words: ['destination', 'show'],
    summary: 'Show the address and its state.',
    positionals: [refSpec],
    run: (call) => withSubscription(call, (_, found) => accept(reportOf(found))),
  },
]

function change(name: string, summary: string, act: Change, asks = false): Verb {
  return {
    words: ['destination', name],
    summary,
    positionals: [refSpec],
    flags: [reasonFlag],
    run: (call) =>
      withSubscription(
        call,
        (store, found) => {
          const changed = act(store, found.id, byOf(call))
          return changed.ok ? accept(reportOf(changed.value)) : changed
        },
        asks ? (subject) => `${name} the destination of ${subject}?` : undefined,
      ),
  }
}

function reportOf({ id, label, destination }: Subscription): Report {
  const text =
    destination === null
      ? `${label} has no destination. Set one with: sluice destination set ${label} <ip:port>`
      : recordOf([
          ['subscription', `${id} (${label})`],
          ['address', destination.address],
          ['state', destination.state],
          ['sending to', sendingTo(destination)],
        ])
  return { json: { id, label, destination }, text }
}

function sendingTo(destination: NonNullable<Subscription['destination']>): string {
  if (destination.state === 'active') return destination.address
  return destination.standing ?? 'nowhere'
}
