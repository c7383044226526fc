// The `upstreams` section of the configuration: named sets of nodes.
// The set `default` serves every subscription; a dedicated-node subscription has a set of its own.
import {
  choice,
  flag,
  group,
  initialOf,
  integer,
  many,
  named,
  number,
  text,
  texts,
  type Values,
} from '../base/fields.ts'
import { mergedStreamsMax } from './ports.ts'

/** Name of the set that serves every subscription which is bound to none. */
export const defaultSet = 'default'

// Providers put keys into addresses.
const nodeFields = {
  rpc: text({
    initial: '',
    secret: 'after-origin',
    doc: 'Address of its JSON-RPC, http or https.',
    check: isHttp,
  }),
  ws: text({
    initial: '',
    secret: 'after-origin',
    doc: 'Ignored: PubSub is computed from the geyser stream. Accepted for older files.',
    check: (value) => (isUrl(value, /^wss?:\/\/./) ? undefined : 'must be ws(s)://'),
  }),
  grpc: text({
    initial: '',
    secret: 'after-origin',
    doc: 'Address of its geyser.Geyser, http or https; a set needs one for websocket and grpc.',
    check: isHttp,
  }),
  xToken: text({
    initial: '',
    secret: true,
    doc: 'Token that it requires, sent as x-token.',
    // It becomes a header: nothing may follow it there.
    check: (value) => (/^[\x21-\x7e]*$/.test(value) ? undefined : 'must be plain characters'),
  }),
  weight: number({ initial: 1, min: 0, max: 1000, doc: 'Its share against the other nodes.' }),
  region: text({ initial: '', doc: 'A label for status and meters.' }),
  allow: texts({ initial: [], doc: 'Methods it serves; empty means all. A name may end in *.' }),
  deny: texts({ initial: [], doc: 'Methods it does not serve. A name may end in *.' }),
}
export type NodeSection = Values<typeof nodeFields>

const setFields = {
  nodes: many('The nodes of the set.', group('One node.', nodeFields)),
  genesis: text({
    initial: '',
    doc: 'Genesis hash of its chain; a node with another is never used. Empty: its nodes decide.',
    check: (value) =>
      /^([1-9A-HJ-NP-Za-km-z]{32,44})?$/.test(value) ? undefined : 'must be base58',
  }),
  lagMs: integer({
    initial: 20_000,
    min: 400,
    max: 3_600_000,
    unit: 'ms',
    doc: 'A node further behind the best one leaves the rotation; it returns at half of that.',
  }),
  lagSlots: integer({
    initial: 0,
    min: 0,
    max: 100_000,
    unit: 'slots',
    doc: 'The same in slots, instead of `lagMs`; 0: `lagMs` by the measured slot time.',
  }),
  merge: integer({
    initial: 2,
    min: 1,
    max: mergedStreamsMax,
    unit: 'streams',
    doc: 'Geyser streams read at once, each from another node; what arrives first is published.',
  }),
  timeoutMs: integer({
    initial: 10_000,
    min: 100,
    max: 600_000,
    unit: 'ms',
    doc: 'Timeout of a call, all attempts together; heavy scans get three times that.',
  }),
  hedge: flag({
    initial: false,
    doc: 'Sends a read that is slower than most to a second node, too.',
  }),
  compare: integer({
    initial: 1,
    min: 1,
    max: 5,
    unit: 'nodes',
    doc: 'Sends one read in a hundred to so many nodes and counts different results; 1 is off.',
  }),
  broadcast: flag({ initial: false, doc: 'sendTransaction goes to all nodes instead of one.' }),
  cacheBytes: memory(64_000_000, 'Memory for answers that can never change; 0 keeps none.'),
  answers: choice(['stream', 'node'], {
    initial: 'stream',
    doc: 'Answers calls from the geyser stream where it knows the answer, or always from a node.',
  }),
  streamAnswers: flag({
    initial: true,
    doc: 'Older name of `answers`: false means node.',
  }),
  streamAnswerBytes: memory(
    64_000_000,
    'Memory for accounts that are kept current by the stream; 0 keeps none.',
  ),
  streamHistoryBytes: memory(
    256_000_000,
    'Memory for the transactions of the last blocks, to answer calls on them; 0 keeps none.',
  ),
}
export type SetSection = Values<typeof setFields>

function memory(initial: number, doc: string) {
  return integer({ initial, min: 0, max: 100_000_000_000, unit: 'bytes', doc })
}

/** Whether calls of the set may be answered from its stream. */
export function answersFromStream({ answers, streamAnswers }: SetSection): boolean {
  return answers === 'stream' && streamAnswers
}

export const upstreamsSection = named(
  'Sets of upstream nodes.',
  'set',
  group('One set.', setFields),
)
export type UpstreamsSection = Readonly<Record<string, SetSection>>

/** A set of one node, with the initial values of everything but its addresses. */
export function singleNodeSet(addresses: Partial<NodeSection>): SetSection {
  return { ...initialOf(setFields), nodes: [{ ...initialOf(nodeFields), ...addresses }] }
}

const setName = /^[a-z][a-z0-9_-]{0,31}$/i

/** Whether a text can be the name of a set: subscriptions, labels and reports carry it. */
export function isSetName(value: string): boolean {
  return setName.test(value)
}

/** Checks across fields. Returns one sentence per problem; never an address. */
export function checkUpstreams(
  sets: UpstreamsSection,
  chainSource: 'embedded' | 'upstream',
): string[] {
  const problems: string[] = []
  const isChain = chainSource === 'upstream'
  if (!isChain && Object.hasOwn(sets, defaultSet))
    problems.push(
      `upstreams.${defaultSet} is configured and chain.source is embedded: ` +
        `set chain.source: upstream, or give the set another name`,
    )
  if (isChain && sets[defaultSet]?.nodes.some(({ rpc }) => rpc !== '') !== true)
    problems.push(
      `chain.source is upstream: give upstreams.${defaultSet}.nodes at least one node with rpc`,
    )
  for (const [name, { nodes }] of Object.entries(sets)) {
    if (!isSetName(name))
      problems.push(`upstreams.${name}: a set's name is letters, digits, - and _, 32 at most`)
    if (nodes.length === 0 && !(isChain && name === defaultSet))
      problems.push(`upstreams.${name} has no nodes: name one, or leave the set out`)
    for (const [index, { rpc, ws, grpc }] of nodes.entries())
      if (rpc === '' && ws === '' && grpc === '')
        problems.push(`upstreams.${name}.nodes.${index} has no address: set rpc or grpc`)
  }
  return problems
}

function isHttp(value: string): string | undefined {
  return isUrl(value, /^https?:\/\/./) ? undefined : 'must be http(s)://'
}

function isUrl(value: string, scheme: RegExp): boolean {
  return value === '' || (scheme.test(value) && URL.canParse(value))
}
