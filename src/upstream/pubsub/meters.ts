// The meters of the PubSub relay. Thread: main. Kept at the sets and read at scrape.
import type { Meters } from '../../telemetry/meters.ts'
import type { UpstreamPubsub } from './relay.ts'
import type { RelayTally } from './set-relay.ts'

const counters: readonly (readonly [string, string, keyof RelayTally])[] = [
  ['notices', 'Notifications that nodes sent', 'notices'],
  ['reconnects', 'Connections to nodes that ended while they held subscriptions', 'reconnects'],
  ['resubscribed', 'Subscriptions that another node took over', 'resubscribed'],
  ['resent', 'Account values read and told after a change of node', 'resent'],
  ['rechecked', 'Signatures found confirmed after a change of node', 'rechecked'],
]

export function declarePubsubRelayMeters(meters: Meters, pubsub: UpstreamPubsub): void {
  // The sets are the configuration's; a meter without series is declared all the same.
  const labels = { set: [] as string[] }
  meters.gaugesRead(
    'sluice_upstream_pubsub_subscriptions',
    'Subscriptions held at nodes: one for all customers with the same wish',
    labels,
    function* () {
      for (const [set, relay] of pubsub.relays) yield [{ set }, relay.count]
    },
  )
  meters.gaugesRead(
    'sluice_upstream_pubsub_connections',
    'WebSockets to nodes that are open',
    labels,
    function* () {
      for (const [set, relay] of pubsub.relays) yield [{ set }, relay.connections]
    },
  )
  for (const [name, help, member] of counters)
    meters.counterRead(`sluice_upstream_pubsub_${name}_total`, help, labels, function* () {
      for (const [set, { tally }] of pubsub.relays) yield [{ set }, tally[member]]
    })
}
