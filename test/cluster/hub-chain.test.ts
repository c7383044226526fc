// A gateway whose Solana stream comes from two hubs, which are Sluices themselves: the hub in use is
// killed over and over, and the customer's stream neither ends nor misses nor repeats anything.
//
//   devnode ◄── hub 1 ◄──┐
//      ▲ ◄───── hub 2 ◄──┴── gateway ◄── follower, compared with one at the devnode
import { afterAll, beforeAll, expect, it } from 'vitest'
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { Follower } from '../testkit/follower.ts'
import { provision, type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'
import { isFull } from './full.ts'

const kills = isFull ? 100 : 3

interface Hub {
  server: Server
  readonly token: string
  readonly flags: readonly string[]
}

let source: Devnode
let gateway: Server
const hubs: Hub[] = []
const followers: Follower[] = []

const closed = ['metrics', 'tpu', 'shredstream', 'indexer', 'websocket'].map(
  (name) => `--${name}.enabled=false`,
)
const node = (index: number, name: string, value: string) =>
  `--upstreams.default.nodes.${index}.${name}=${value}`
const follows = ['--chain.source=upstream', ...closed]

async function startHub(): Promise<Hub> {
  const flags = [...follows, node(0, 'rpc', source.url('rpc')), node(0, 'grpc', source.url('grpc'))]
  const server = await startServer({ flags })
  const { token } = await provision(server.data, 'gateways', '--product=bundle', '--plan=unlimited')
  const port = `--grpc.port=${server.doors.grpc!.port}`
  return { server, token, flags: [...flags, port] }
}

beforeAll(async () => {
  source = await startDevnode({ slotMs: 150, flags: ['--traffic=40'] })
  hubs.push(...(await Promise.all([startHub(), startHub()])))
  const streams = hubs.flatMap(({ server, token }, index) => [
    node(index + 1, 'grpc', server.url('grpc')),
    node(index + 1, 'xToken', token),
  ])
  gateway = await startServer({
    flags: [...follows, node(0, 'rpc', source.url('rpc')), ...streams],
  })
})

afterAll(async () => {
  for (const follower of followers) follower.stop()
  await gateway?.dispose()
  for (const { server } of hubs) await server.dispose()
  await source?.dispose()
})

/** Index of the hub that the gateway follows; -1 while it follows none. */
async function followed(): Promise<number> {
  const answer = await askOperator(gateway.data, 'status')
  if (!answer.ok) throw new Error(answer.message)
  const { geyser } = answer.value as { geyser: { default: { node: string | null } } }
  const { node: name } = geyser.default
  // Node 1 is the chain's own rpc; the hubs are 2 and 3.
  return name === null ? -1 : Number(name.split('/')[1]) - 2
}

it('loses and repeats nothing when the hub in use is killed', async () => {
  const { token } = await provision(gateway.data, 'me', '--product=bundle', '--plan=unlimited')
  const hostOf = (url: string) => new URL(url).host
  const [direct, through] = [
    new Follower(hostOf(source.url('grpc')), '', 1),
    new Follower(hostOf(gateway.url('grpc')), token, 1),
  ] as const
  followers.push(direct, through)
  await until(() => through.newest >= 0 && direct.newest >= 0, 'the first block')
  const endsBefore = through.ends.length
  const first = Math.max(direct.newest, through.newest) + 1
  for (let kill = 0; kill < kills; kill++) {
    await through.reaches(through.newest + 3)
    const victim = await followed()
    const hub = hubs[victim]!
    await hub.server.stop('SIGKILL')
    await until(async () => ![-1, victim].includes(await followed()), 'the other hub')
    hub.server = await startServer({ data: hub.server.data, flags: hub.flags })
  }
  const last = direct.newest + 2
  await Promise.all(followers.map((follower) => follower.reaches(last + 1)))

  const seen = (follower: Follower) =>
    [...follower.signatures]
      .filter(([slot]) => slot >= first && slot <= last)
      .map(([slot, signatures]) => [slot, [...signatures].toSorted()] as const)
      .toSorted(([a], [b]) => a - b)
  expect(seen(through)).toEqual(seen(direct))
  expect(seen(direct).flatMap(([, signatures]) => signatures).length).toBeGreaterThan(20)
  expect(through.gaps()).toEqual([])
  expect([through.duplicates, through.ends.length - endsBefore]).toEqual([0, 0])
}, 3_600_000)
