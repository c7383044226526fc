// The faults, as a table: what each hits and needs, how it is begun, and what ends it. One is active
// at a time, or two that hit different parts; which, where and how long is a function of the seed.
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { startStandby, waitForNobody, waitForStandby } from '../cluster/standby.ts'
import { makeReadOnly, plainUser } from '../testkit/read-only.ts'
import type { EndpointAddress } from '../testkit/server.ts'
import { programs } from './index-server.ts'
import type { Load } from './load.ts'
import type { Gateway, Stage } from './stage.ts'

export interface FaultContext {
  readonly stage: Stage
  readonly load: Load
  /** The one that is hit, where one is. */
  readonly gateway: Gateway
  random(): number
}

export interface Fault {
  readonly name: string
  readonly hits: 'gateway' | 'nodes' | 'registry' | 'index'
  /** It ends with a start of the gateway. */
  readonly isStart?: true
  /** Why it cannot be done here. */
  needs?(stage: Stage): string | undefined
  /** Begins it; what it returns ends it. */
  apply(context: FaultContext): Promise<() => unknown> | (() => unknown)
}

const hourMs = 3_600_000
const stallMs = 100
const ballastMb = 120
const halfOpenSockets = 40
/** More than half of what an HTTP endpoint gives an address by default. */
const idleSockets = 520
const resetSockets = 100
/** Index of the link to the node that lies. */
const liar = -1

const needsClickhouse = (stage: Stage) => (stage.index === null ? 'ClickHouse' : undefined)
const needsPostgres = (stage: Stage) => (stage.postgres === null ? 'PostgreSQL' : undefined)

export const faults: readonly Fault[] = [
  {
    name: 'gateway killed',
    hits: 'gateway',
    isStart: true,
    apply: async ({ gateway, load }) => {
      load.forgive(gateway)
      await gateway.kill()
      return () => gateway.start()
    },
  },
  {
    name: 'gateway stopped',
    hits: 'gateway',
    isStart: true,
    apply: async ({ gateway }) => {
      await gateway.kill('SIGTERM')
      return () => gateway.start()
    },
  },
  {
    name: 'gateway frozen',
    hits: 'gateway',
    apply: ({ gateway }) => frozen(gateway.server.child.pid!),
  },
  {
    name: 'child process killed',
    hits: 'gateway',
    apply: (context) => {
      process.kill(anyChild(context), 'SIGKILL')
      return () => {}
    },
  },
  { name: 'child process frozen', hits: 'gateway', apply: (context) => frozen(anyChild(context)) },
  {
    name: 'node cut',
    hits: 'nodes',
    apply: (context) => onNode(context, (node, is) => node.kill(is)),
  },
  {
    name: 'node frozen',
    hits: 'nodes',
    apply: (context) => onNode(context, (node, is) => node.freeze(is)),
  },
  {
    name: 'node half-open',
    hits: 'nodes',
    apply: (context) => onNode(context, (node, is) => node.swallow(is)),
  },
  {
    name: 'node stalls 100 ms',
    hits: 'nodes',
    apply: (context) => onNode(context, (node, is) => node.delay(is ? stallMs : 0)),
  },
  {
    name: 'node connections reset',
    hits: 'nodes',
    apply: ({ stage }) => {
      for (const gateway of stage.gateways) for (const node of gateway.nodes) node.cut()
      return () => {}
    },
  },
  {
    name: 'all nodes cut',
    hits: 'nodes',
    apply: ({ gateway }) => onHonest(gateway, (node, is) => node.kill(is)),
  },
  {
    name: 'all nodes frozen',
    hits: 'nodes',
    apply: ({ gateway }) => onHonest(gateway, (node, is) => node.freeze(is)),
  },
  {
    name: 'a node lies',
    hits: 'nodes',
    apply: ({ stage }) => {
      for (const gateway of stage.gateways) gateway.nodes.at(liar)!.kill(false)
      return () => {
        for (const gateway of stage.gateways) gateway.nodes.at(liar)!.kill(true)
      }
    },
  },
  {
    name: 'only nodes that lag',
    hits: 'nodes',
    apply: ({ gateway }) => {
      const [first, second] = gateway.nodes
      for (const node of [first!, second!]) node.kill(true)
      return () => {
        for (const node of [first!, second!]) node.kill(false)
      }
    },
  },
  { name: 'chain frozen', hits: 'nodes', apply: ({ stage }) => frozen(stage.devnode.nodePid()) },
  {
    name: 'PostgreSQL cut',
    hits: 'registry',
    needs: needsPostgres,
    apply: ({ stage }) => onDatabase(stage.gateways, (link, is) => link.refuse(is)),
  },
  {
    name: 'PostgreSQL cut off one',
    hits: 'registry',
    needs: needsPostgres,
    apply: ({ gateway }) => onDatabase([gateway], (link, is) => link.refuse(is)),
  },
  {
    name: 'PostgreSQL half-open',
    hits: 'registry',
    needs: needsPostgres,
    apply: ({ stage }) => onDatabase(stage.gateways, (link, is) => link.swallow(is)),
  },
  {
    name: 'PostgreSQL stalls 100 ms',
    hits: 'registry',
    needs: needsPostgres,
    apply: ({ stage }) => onDatabase(stage.gateways, (link, is) => link.delay(is ? stallMs : 0)),
  },
  {
    name: 'PostgreSQL frozen',
    hits: 'registry',
    needs: needsPostgres,
    apply: ({ stage }) => {
      stage.postgres!.pause()
      return () => stage.postgres!.resume()
    },
  },
  {
    name: 'PostgreSQL killed',
    hits: 'registry',
    needs: needsPostgres,
    apply: async ({ stage }) => {
      await stage.postgres!.kill()
      return () => stage.postgres!.restart()
    },
  },
  {
    name: 'standby frozen',
    hits: 'registry',
    needs: needsPostgres,
    apply: ({ stage }) => {
      stage.standby!.pause()
      return () => stage.standby!.resume()
    },
  },
  {
    name: 'standby promoted',
    hits: 'registry',
    needs: needsPostgres,
    apply: ({ stage }) => promote(stage),
  },
  {
    name: 'ClickHouse cut',
    hits: 'index',
    needs: needsClickhouse,
    apply: ({ stage }) => onEach([stage.index!.link], (link, is) => link.refuse(is)),
  },
  {
    name: 'ClickHouse half-open',
    hits: 'index',
    needs: needsClickhouse,
    apply: ({ stage }) => onEach([stage.index!.link], (link, is) => link.swallow(is)),
  },
  {
    name: 'ClickHouse frozen',
    hits: 'index',
    needs: needsClickhouse,
    apply: ({ stage }) => frozen(stage.index!.clickhouse.pid()),
  },
  {
    name: 'ClickHouse killed',
    hits: 'index',
    needs: needsClickhouse,
    apply: async ({ stage }) => {
      await stage.index!.clickhouse.kill()
      return () => stage.index!.clickhouse.restart()
    },
  },
  {
    name: 'indexer killed',
    hits: 'index',
    needs: needsClickhouse,
    apply: ({ stage, random }) => {
      stage.index!.signal(Math.floor(random() * programs), 'SIGKILL')
      return () => {}
    },
  },
  {
    name: 'indexer frozen',
    hits: 'index',
    needs: needsClickhouse,
    apply: ({ stage, random }) => {
      const number = Math.floor(random() * programs)
      stage.index!.signal(number, 'SIGSTOP')
      return () => stage.index!.signal(number, 'SIGCONT')
    },
  },
  {
    name: 'disk full',
    hits: 'gateway',
    needs: ({ gateways }) => (gateways[0]!.disk === null ? 'the right to mount' : undefined),
    apply: ({ stage }) => {
      const { disk } = stage.gateways[0]!
      disk!.fill()
      return () => disk!.free()
    },
  },
  {
    name: 'folder read-only',
    hits: 'gateway',
    needs: () => (plainUser() === null ? 'setpriv' : undefined),
    apply: ({ gateway }) => makeReadOnly(gateway.data),
  },
  {
    name: 'no descriptors',
    hits: 'gateway',
    needs: () => (spawnSync('prlimit', ['--version']).status === 0 ? undefined : 'prlimit'),
    apply: ({ gateway }) => withoutDescriptors(gateway.server.child.pid!),
  },
  { name: 'clock + 1 h', hits: 'gateway', apply: ({ gateway }) => shifted(gateway, hourMs) },
  { name: 'clock - 1 h', hits: 'gateway', apply: ({ gateway }) => shifted(gateway, -hourMs) },
  {
    name: 'memory pressure',
    hits: 'gateway',
    apply: ({ gateway }) => {
      gateway.control({ ballastMb })
      return () => gateway.control({})
    },
  },
  { name: 'half-open clients', hits: 'gateway', apply: ({ gateway }) => halfOpen(gateway) },
  {
    name: 'connections reset unseen',
    hits: 'gateway',
    apply: ({ gateway }) => resetUnseen(gateway),
  },
  {
    name: 'certificate swapped',
    hits: 'gateway',
    needs: ({ gateways }) => (gateways.at(-1)!.certificates === null ? 'openssl' : undefined),
    apply: ({ stage }) => {
      stage.gateways.at(-1)!.certificates!.swap()
      return () => {}
    },
  },
  {
    name: 'configuration reload',
    hits: 'gateway',
    apply: ({ gateway }) => {
      gateway.reconfigure()
      return () => {}
    },
  },
]

function frozen(pid: number): () => void {
  process.kill(pid, 'SIGSTOP')
  return () => {
    if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGCONT')
  }
}

function anyChild({ gateway, random }: FaultContext): number {
  const children = gateway.processes().slice(1)
  return children[Math.floor(random() * children.length)]!.pid
}

type Link<T> = (link: T, isBroken: boolean) => void
type NodeLink = Gateway['nodes'][number]
type DatabaseLink = Gateway['database'][number]

/** One of the honest nodes, at every gateway. */
function onNode({ stage, random }: FaultContext, change: Link<NodeLink>): () => void {
  const index = Math.floor(random() * (stage.gateways[0]!.nodes.length - 1))
  return onEach(
    stage.gateways.map(({ nodes }) => nodes[index]!),
    change,
  )
}

/** All honest nodes at one gateway. */
function onHonest({ nodes }: Gateway, change: Link<NodeLink>): () => void {
  return onEach(nodes.slice(0, liar), change)
}

function onDatabase(gateways: readonly Gateway[], change: Link<DatabaseLink>): () => void {
  return onEach(
    gateways.flatMap(({ database }) => database),
    change,
  )
}

function onEach<T>(links: readonly T[], change: Link<T>): () => void {
  for (const link of links) change(link, true)
  return () => {
    for (const link of links) change(link, false)
  }
}

/** The primary dies, the standby takes its place, and a new standby that of the primary. */
async function promote(stage: Stage): Promise<() => Promise<void>> {
  const [old, next] = [stage.postgres!, stage.standby!]
  await old.kill()
  return async () => {
    await next.promote()
    await waitForNobody(next)
    stage.postgres = next
    old.dispose()
    // Not part of the recovery: gateways work with the new primary alone.
    stage.repair = (async () => {
      stage.standby = await startStandby(next, old.port)
      await waitForStandby(next)
    })()
  }
}

function withoutDescriptors(pid: number): () => void {
  const used = readdirSync(`/proc/${pid}/fd`).map(Number)
  const limit = (count: string) => spawnSync('prlimit', ['--pid', String(pid), `--nofile=${count}`])
  const shown = spawnSync('prlimit', [
    '--pid',
    String(pid),
    '--nofile',
    '--noheadings',
    '-o',
    'SOFT',
  ])
  const before = shown.stdout.toString().trim()
  limit(`${Math.max(...used) + 2}:`)
  return () => void limit(`${before}:`)
}

function shifted(gateway: Gateway, shiftMs: number): () => void {
  gateway.control({ shiftMs })
  return () => gateway.control({})
}

/** Clients that send half a request and nothing more. */
function halfOpen({ server }: Gateway): () => void {
  const sockets: Socket[] = []
  for (const name of ['rpc', 'websocket', 'grpc', 'metrics', 'tpu', 'indexer'])
    for (let count = 0; count < halfOpenSockets; count++) {
      const { host, port } = server.doors[name]!
      const socket = connect(port, host)
      socket.on('error', () => {})
      socket.write('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{')
      sockets.push(socket)
    }
  return () => {
    for (const socket of sockets) socket.destroy()
  }
}

/**
 * Connections that are reset before the gateway accepts them, beside as many idle ones as make it
 * count those of each address.
 */
async function resetUnseen({ server }: Gateway): Promise<() => void> {
  const doors = ['rpc', 'tpu', 'indexer', 'metrics'].map((name) => server.doors[name]!)
  const idle = await connected(doors, idleSockets)
  const resume = frozen(server.child.pid!)
  for (const socket of await connected(doors, resetSockets)) socket.resetAndDestroy()
  return () => {
    resume()
    for (const socket of idle) socket.destroy()
  }
}

/** So many of each, by the kernel: whether they are accepted or not. */
function connected(doors: readonly EndpointAddress[], count: number): Promise<Socket[]> {
  const sockets = doors.flatMap(({ host, port }) =>
    Array.from({ length: count }, async () => {
      const socket = connect(port, host).on('error', () => {})
      await Promise.race([once(socket, 'connect'), once(socket, 'close')])
      return socket
    }),
  )
  return Promise.all(sockets)
}
