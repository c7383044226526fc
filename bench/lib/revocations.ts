// How soon a revoked token is dead at every gateway: its open streams are closed and its calls are
// refused. Thread: main of the bench process; the gateways are processes of their own.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { WebSocket } from 'ws'
import { Latencies } from '../../src/loadtest/latencies.ts'
import { by, type Gateway, openGateway } from '../../test/cluster/gateway-stage.ts'
import { until } from '../../test/testkit/until.ts'
import type { Measurement, RoundContext } from './bench.ts'
import { measured } from './cluster-steps.ts'
import { startWholeServer, type WholeServer } from './whole-server.ts'

const gateways = 3
/** In each of three rounds: 201 in all. */
const revokedEach = 67
const waitMs = 30_000
/** Only the endpoint that needs no chain. */
const flags = [
  ...['rpc', 'websocket', 'grpc', 'tpu', 'shredstream', 'indexer'].map(
    (name) => `--${name}.enabled=false`,
  ),
  ...['--metrics.auth=token', '--metrics.generator.tps=10'],
]

export class Revocations {
  readonly #folder: string
  readonly #operator: Gateway
  readonly #servers: readonly WholeServer[]
  readonly #agent = new Agent({ connections: 64 })
  #labels = 0

  private constructor(folder: string, operator: Gateway, servers: readonly WholeServer[]) {
    this.#folder = folder
    this.#operator = operator
    this.#servers = servers
  }

  static async start(url: string, { smoke }: RoundContext): Promise<Revocations> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-revocations-'))
    const operator = openGateway(url, 'operator', { folder })
    await operator.start()
    const count = smoke === true ? 1 : gateways
    const started = Array.from({ length: count }, (_, index) =>
      startWholeServer([...flags, `--cluster.gateway=g${index + 1}`], {
        env: { SLUICE_CLUSTER__URL: url },
        subscription: null,
      }),
    )
    return new Revocations(folder, operator, await Promise.all(started))
  }

  async stop(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.stop()))
    await this.#operator.stop()
    await this.#agent.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** Spread over that time, whether or not earlier ones have had their effect. */
  async run({ seconds, smoke }: RoundContext): Promise<Measurement> {
    const revoked = smoke === true ? 1 : revokedEach
    const tokens = await this.#issue(revoked)
    const histogram = new Latencies()
    const startMs = performance.now()
    const all = tokens.map(async ({ label, token, closed }, index) => {
      await sleep((index * seconds * 1000) / revoked)
      const beganMs = performance.now()
      const dead = closed.map(async (end, gateway) => {
        await end
        await until(() => this.#isRefused(gateway, token), 'the refusal', waitMs)
      })
      const outcome = await this.#operator.shared.verbs.end(label, by)
      if (!outcome.ok) throw new Error(outcome.refusal.message)
      await Promise.all(dead)
      histogram.record(performance.now() - beganMs)
    })
    await Promise.all(all)
    return measured(histogram, performance.now() - startMs)
  }

  /** Tokens with a stream from each gateway. */
  async #issue(revoked: number) {
    const issued: { label: string; token: string }[] = []
    for (let count = 0; count < revoked; count++) {
      this.#labels += 1
      const label = `t${this.#labels}`
      const outcome = await this.#operator.shared.verbs.add({ label, products: ['bundle'] }, by)
      if (!outcome.ok) throw new Error(outcome.refusal.message)
      issued.push({ label, token: outcome.value.token })
    }
    const last = issued.at(-1)!.token
    for (const gateway of this.#servers.keys())
      await until(async () => !(await this.#isRefused(gateway, last)), 'the new tokens', waitMs)
    return Promise.all(
      issued.map(async (one, index) => {
        // Connections are limited per address.
        const from = `127.0.1.${index + 1}`
        const opened = this.#servers.map((server) => open(server, one.token, from))
        const sockets = await Promise.all(opened)
        return { ...one, closed: sockets.map(({ closed }) => closed) }
      }),
    )
  }

  async #isRefused(gateway: number, token: string): Promise<boolean> {
    const { port } = this.#servers[gateway]!.doors.metrics!
    const { statusCode, body } = await request(`http://127.0.0.1:${port}/v1/tps`, {
      headers: { 'x-token': token },
      dispatcher: this.#agent,
    })
    await body.dump()
    return statusCode === 401
  }
}

async function open({ doors }: WholeServer, token: string, localAddress: string) {
  const socket = new WebSocket(`ws://127.0.0.1:${doors.metrics!.port}/v1/ws`, {
    headers: { 'x-token': token },
    localAddress,
  })
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  await new Promise<void>((resolve, reject) => {
    socket.once('open', () => resolve())
    socket.once('error', reject)
  })
  return { closed }
}
