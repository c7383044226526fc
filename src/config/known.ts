// What this installation offers to subscriptions, as its configuration says. Thread: main.
// The command and the server open the registry with it; requests are checked against it.
import { networkInterfaces } from 'node:os'
import { sourcePortOf } from '../products/shredstream/config.ts'
import { type Config, enabledDoors, isAllEmbedded } from './config.ts'

/** Fits `Known` of the subscriptions room. */
export function knownOf(config: Config) {
  // Reason for the cast: both sections belong to rooms of their own and may be absent.
  const sections: {
    shredstream?: Config['shredstream']
    upstreams?: Readonly<Record<string, unknown>>
  } = config as object
  const { shredstream } = sections
  const interfaces = Object.values(networkInterfaces()).flatMap((found) =>
    (found ?? []).map(({ address }) => address),
  )
  return {
    plans: Object.keys(config.plans),
    ...(sections.upstreams === undefined ? {} : { upstreams: Object.keys(sections.upstreams) }),
    destinationRules: {
      allowPrivate: shredstream?.allowPrivate === true || isAllEmbedded(config),
      own: [
        ...enabledDoors(config).map(({ host, port }) => ({ host, port })),
        ...(shredstream === undefined ? [] : [sourceOf(shredstream)]),
      ],
      interfaces,
    },
  }
}

/** Where shreds are sent from is a door too: a challenge sent there would answer itself. */
function sourceOf(section: Config['shredstream']): { host: string; port: number } {
  return { host: section.sourceHost || section.host, port: sourcePortOf(section) }
}
