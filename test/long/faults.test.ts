// Faults of the world: no descriptors, a full disk, a disk that cannot be written. The server lives,
// every call is answered or fails visibly, and when the fault is gone everything works again.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { type Credentials, callEveryEndpoint } from '../testkit/every-endpoint.ts'
import { makeReadOnly, plainUser } from '../testkit/read-only.ts'
import { type Server, sluice, startServer } from '../testkit/server.ts'
import { isSlice } from '../testkit/slice.ts'
import { canMount, mountSmallDisk } from '../testkit/small-disk.ts'
import { until } from '../testkit/until.ts'

/** Length of a fault: 16 s; in a slice 6 s, long enough for a write of each file. */
const faultSlots = isSlice ? 15 : 40
const servers: Server[] = []
afterAll(async () => {
  for (const server of servers) await server.dispose()
})

async function start(options: Parameters<typeof startServer>[0]): Promise<Server> {
  const server = await startServer({ isWhole: true, ...options })
  servers.push(server)
  await until(() => server.stdout().includes('INDEXER_PASSWORD='), 'the banner')
  return server
}

function credentialsOf(server: Server): Credentials {
  const printed = (name: string) =>
    new RegExp(`^${name}=(.+)$`, 'm').exec(server.stdout())?.[1] ?? ''
  const indexer = { user: printed('INDEXER_USER'), password: printed('INDEXER_PASSWORD') }
  return { token: printed('TOKEN'), indexer }
}

function expectAlive(server: Server): void {
  expect([server.child.exitCode, server.child.signalCode], stateOf(server)).toEqual([null, null])
}

const names = ['rpc', 'websocket', 'grpc', 'metrics', 'prometheus', 'tpu', 'indexer', 'operator']
const allOk = Object.fromEntries(names.map((name) => [name, 'ok']))

/** Every call was answered or failed visibly, by a server that still runs. */
async function expectAnswers(server: Server): Promise<Record<string, string>> {
  const outcomes = await callEveryEndpoint(server, credentialsOf(server))
  expectAlive(server)
  expect(Object.entries(outcomes).filter(([, outcome]) => outcome === 'silence')).toEqual([])
  return outcomes
}

async function expectAllOk(server: Server): Promise<void> {
  let outcomes: Record<string, string> = {}
  await until(async () => {
    outcomes = await expectAnswers(server)
    return Object.values(outcomes).every((outcome) => outcome === 'ok')
  }, `every endpoint to work`).catch(() => expect(outcomes).toEqual(allOk))
}

/** Keeps so many idle connections to a server open that it has no descriptor left. */
class Crowd {
  readonly #sockets = new Set<Socket>()
  readonly #timer: NodeJS.Timeout

  constructor(server: Server, size: number) {
    const doors = ['grpc', 'rpc', 'metrics', 'tpu', 'indexer'].map((name) => server.doors[name]!)
    let opened = 0
    this.#timer = setInterval(() => {
      while (this.#sockets.size < size) {
        opened += 1
        const { host, port } = doors[opened % doors.length]!
        const socket = connect(port, host)
        this.#sockets.add(socket)
        socket.on('error', () => {})
        socket.on('close', () => this.#sockets.delete(socket))
      }
    }, 20)
  }

  leave(): void {
    clearInterval(this.#timer)
    for (const socket of this.#sockets) socket.destroy()
  }
}

describe('a server without free descriptors', () => {
  it('lives, answers or refuses, and works again when there are some', async () => {
    const limit = 300
    const server = await start({
      through: ['/bin/sh', '-c', `ulimit -n ${limit}; exec "$0" "$@"`],
    })
    await expectAllOk(server)
    const crowd = new Crowd(server, 2 * limit)
    const used = () => readdirSync(`/proc/${server.child.pid}/fd`).length
    try {
      await until(() => used() >= limit - 40, 'the descriptors to run out')
      for (let round = 0; round < 3; round++) {
        // The reserve is for the operator and for the server itself.
        expect(await expectAnswers(server)).toMatchObject({ operator: 'ok' })
      }
    } finally {
      crowd.leave()
    }
    await expectAllOk(server)
  })
})

describe('an unhandled error', () => {
  // Two signals let errors loose in the server, as an emitter without a listener would.
  const loose = `import { EventEmitter } from 'node:events'
    const fault = Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' })
    process.on('SIGUSR2', () => setImmediate(() => new EventEmitter().emit('error', fault)))
    process.on('SIGCONT', () => setImmediate(() => Promise.reject(fault)))
    process.on('SIGHUP', () => setImmediate(() => { throw new TypeError('a bug of ours') }))`

  it('is survived when it is a fault of the world, and ends the server when it is a bug', async () => {
    const flag = `--import=data:text/javascript,${encodeURIComponent(loose)}`
    const server = await startServer({ nodeFlags: [flag] })
    servers.push(server)
    for (const signal of ['SIGUSR2', 'SIGCONT'] as const) {
      const lines = linesOf(server, 'accept EMFILE')
      // The log has one line a second of a kind, so that one error alone may have none.
      await until(async () => {
        server.child.kill(signal)
        await new Promise((resolve) => setTimeout(resolve, 200))
        return linesOf(server, 'accept EMFILE') > lines
      }, 'the line in the log')
      const before = await slotOf(server)
      await until(async () => (await slotOf(server)) > before, 'the chain to go on')
    }
    expectAlive(server)
    server.child.kill('SIGHUP')
    const { child } = server
    const hasEnded = () => child.exitCode !== null || child.signalCode !== null
    await until(hasEnded, 'the end').catch((error) => fail(server, error))
    expect([child.exitCode, child.signalCode], stateOf(server)).toEqual([1, null])
    expect(server.stderr()).toContain('TypeError: a bug of ours')
  })
})

describe('a server whose disk', () => {
  const isMountable = canMount()
  const asPlainUser = plainUser()
  const folders: string[] = []
  afterAll(() => {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  })
  if (!isMountable) console.warn('faults: a full disk is not tested, a mount needs root')
  if (asPlainUser === null) console.warn('faults: a read-only folder is not tested, setpriv fails')

  it.skipIf(!isMountable)('is full keeps running, and recovers when space is free', async () => {
    const disk = mountSmallDisk('256m')
    try {
      const server = await start({ data: disk.path })
      await survive(server, { begin: () => disk.fill(), end: () => disk.free() })
      expect(server.stderr()).toMatch(/no space left/i)
      expect(await server.stop(), stateOf(server)).toBe(0)
    } finally {
      disk.unmount()
    }
  })

  // Takes the same way through the server as the full disk: in the slice that one stands for both.
  it.skipIf(isSlice || asPlainUser === null)(
    'cannot be written lives, and works again when it can',
    async () => {
      const data = mkdtempSync(join(tmpdir(), 'sluice-read-only-'))
      folders.push(data)
      const server = await start({ data, through: asPlainUser! })
      let makeWritable = () => {}
      await survive(server, {
        begin: () => {
          makeWritable = makeReadOnly(data)
        },
        end: () => makeWritable(),
      })
      expect(server.stderr()).toMatch(/permission denied/i)
      expect(await server.stop(), stateOf(server)).toBe(0)
    },
  )
})

function linesOf(server: Server, text: string): number {
  return server.stderr().split(text).length - 1
}

async function slotOf(server: Server): Promise<number> {
  const response = await fetch(server.url('rpc'), {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-token': credentialsOf(server).token,
      // The server closes an idle connection after 8 s, maybe just when a busy machine uses it.
      connection: 'close',
    },
    // Nothing is final in the first 32 slots.
    body: '{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[{"commitment":"processed"}]}',
  }).catch((error) => fail(server, error))
  return ((await response.json()) as { result: number }).result
}

/** The newest slot of the index. */
async function indexedOf(server: Server): Promise<number> {
  const { token, indexer } = credentialsOf(server)
  const basic = Buffer.from(`${indexer.user}:${indexer.password}`).toString('base64')
  const headers = { authorization: `Basic ${basic}`, 'x-token': token, connection: 'close' }
  const query = new URLSearchParams({ query: 'SELECT max(slot) FROM blocks' })
  const answer = await fetch(`${server.url('indexer')}/?${query}`, { headers })
  return answer.ok ? Number(await answer.text()) : -1
}

/** Throws the error with its cause and with what is known of the server, all in one line. */
function fail(server: Server, error: Error): never {
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : ''
  throw new Error(`${error.message}${cause}; ${stateOf(server)}`, { cause: error })
}

/** Exit code and signal of the server, its waiting threads while it runs, its last log lines. */
function stateOf(server: Server): string {
  const { pid, exitCode, signalCode } = server.child
  const log = server.stderr().slice(-2000).trim().split('\n').join(' | ')
  return `exit code ${exitCode}, signal ${signalCode}, threads [${waitsOf(pid!)}], log: ${log}`
}

/** The kernel function that each thread waits in; empty once the process has ended. */
function waitsOf(pid: number): string[] {
  const tasks = `/proc/${pid}/task`
  try {
    return readdirSync(tasks).map((id) => readFileSync(`${tasks}/${id}/wchan`, 'utf8'))
  } catch {
    return []
  }
}

async function creditsOf(server: Server): Promise<number> {
  const shown = await sluice(server.data, 'usage', 'demo', '--output=json')
  expect(shown.code, shown.stderr).toBe(0)
  return JSON.parse(shown.stdout).window.credits as number
}

/** What the chain, the endpoints, the quota and the registry do during a fault, and after it. */
async function survive(server: Server, fault: { begin(): void; end(): void }): Promise<void> {
  await expectAllOk(server)
  // Nothing answers there: after ten challenges, one a second, its failure is to be written.
  const set = await sluice(server.data, 'destination', 'set', 'demo', '127.0.0.1:40009')
  expect(set.code, set.stderr).toBe(0)
  fault.begin()
  const first = await slotOf(server)
  await until(async () => {
    await expectAnswers(server)
    return (await slotOf(server)) > first + faultSlots
  }, 'the chain to go on')
  fault.end()
  const last = await slotOf(server)
  await expectAllOk(server)
  await until(async () => (await indexedOf(server)) > last, 'the index to be written')
  const before = await creditsOf(server)
  await slotOf(server)
  await until(async () => (await creditsOf(server)) > before, 'use to be written')
  const isGivenUp = async () => {
    const shown = await sluice(server.data, 'destination', 'show', 'demo', '--output=json')
    return JSON.parse(shown.stdout).destination?.state === 'failed'
  }
  await until(isGivenUp, 'the destination to be given up')
  expectAlive(server)
}
