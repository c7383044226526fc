// Derives what subscriptions may use (plans, upstream sets, destinations) from the configuration.
// Provisioning requests are checked against it.
import { networkInterfaces } from 'node:os'
import { sourcePortOf } from '../../products/shredstream/config.ts'
import { type Config, enabledEndpoints, isAllEmbedded } from './config.ts'

/** Matches `Known` of the subscriptions module. */
export function knownOf(config: Config) {
  const { plans, upstreams, shredstream } = config
  const endpoints = enabledEndpoints(config).map(({ host, port }) => ({ host, port }))
  const interfaces = Object.values(networkInterfaces()).flatMap((found) =>
    (found ?? []).map(({ address }) => address),
  )
  return {
    plans: Object.keys(plans),
    upstreams: Object.keys(upstreams),
    destinationRules: {
      allowPrivate: shredstream.allowPrivate || isAllEmbedded(config),
      own: [...endpoints, sourceOf(shredstream)],
      interfaces,
    },
  }
}

/** What a running server offers, which may have another configuration than a command. */
export function offerOf(config: Config) {
  const limits = Object.entries(config.plans).map(
    ([name, { creditsPer30Days }]) => [name, creditsPer30Days] as const,
  )
  return { known: knownOf(config), creditsPer30Days: Object.fromEntries(limits) }
}

/** The port that shreds are sent from counts too: a challenge sent there would answer itself. */
function sourceOf(section: Config['shredstream']): { host: string; port: number } {
  return { host: section.sourceHost || section.host, port: sourcePortOf(section) }
}
