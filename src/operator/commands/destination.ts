// `sluice destination ...`: manages the address a subscription's shreds are sent to.
// A new address receives only challenges until it is proven by an echo or by `confirm`.
import { accept } from '../../base/errors.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import { recordOf } from './output.ts'
import { byOf, reasonFlag, refSpec, withStore, withSubscription } from './registry.ts'
import type { Report, Verb } from './verb.ts'

const addressSpec = {
  name: 'ip:port',
  doc: 'Literal IPv4:port or [IPv6]:port.',
  key: 'address',
} as const

export const destinationVerbs: readonly Verb[] = [
  {
    words: ['destination', 'set'],
    api: 'change',
    summary: 'Propose an address; it must be proven before shreds are sent to it.',
    examples: ['destination set acme 203.0.113.7:20010'],
    positionals: [refSpec, addressSpec],
    flags: [reasonFlag],
    run: (call) =>
      withStore(
        call,
        async (_store, changes) => {
          const [ref = '', address = ''] = call.positionals
          const changed = await changes.setDestination(ref, address, byOf(call))
          if (!changed.ok) return changed
          const { label } = changed.value
          const done = `${address} was proposed for ${label}; shreds are sent once it is proven.`
          return accept(reportOf(changed.value, done))
        },
        { isChecked: true },
      ),
  },
  change({
    name: 'confirm',
    summary: 'Mark the address as proven.',
    done: 'was confirmed: shreds are sent to it',
  }),
  change({
    name: 'pause',
    summary: 'Stop sending shreds.',
    done: 'is paused: no shreds are sent',
  }),
  change({
    name: 'resume',
    summary: 'Send shreds again.',
    done: 'is resumed: shreds are sent to it',
  }),
  change({
    name: 'clear',
    summary: 'Remove the address.',
    done: 'was removed: no shreds are sent',
    asks: true,
  }),
  {
    words: ['destination', 'show'],
    api: 'read',
    summary: 'Show the address and its state.',
    examples: ['destination show acme'],
    positionals: [refSpec],
    run: (call) => withSubscription(call, (_, found) => accept(reportOf(found))),
  },
]

interface ChangeSpec {
  readonly name: 'confirm' | 'pause' | 'resume' | 'clear'
  readonly summary: string
  /** What happened to the destination, as the end of a sentence. */
  readonly done: string
  readonly asks?: boolean
}

function change({ name, summary, done, asks = false }: ChangeSpec): Verb {
  return {
    words: ['destination', name],
    api: 'change',
    summary,
    examples: [`destination ${name} acme`],
    asks,
    positionals: [refSpec],
    flags: [reasonFlag],
    run: (call) =>
      withSubscription(
        call,
        async (_store, found, changes) => {
          const changed = await changes[`${name}Destination`](found.id, byOf(call))
          if (!changed.ok) return changed
          return accept(reportOf(changed.value, `The destination of ${found.label} ${done}.`))
        },
        asks
          ? (subject) => ({ text: `${name} the destination of ${subject}?`, isFinal: true })
          : undefined,
      ),
  }
}

/** `done` is the sentence of a change. */
function reportOf({ id, label, destination }: Subscription, done?: string): Report {
  const record =
    destination === null
      ? `${label} has no destination. Set one with: ` +
        `npx --no -- sluice destination set ${label} <ip:port>`
      : recordOf([
          ['subscription', `${id} (${label})`],
          ['address', destination.address],
          ['state', destination.state],
          ['sending to', sendingTo(destination)],
        ])
  const isCleared = done !== undefined && destination === null
  const text = isCleared ? done : done === undefined ? record : `${done}\n\n${record}`
  return { json: { id, label, destination }, text }
}

function sendingTo(destination: NonNullable<Subscription['destination']>): string {
  if (destination.state === 'active') return destination.address
  return destination.standing ?? 'nowhere'
}
