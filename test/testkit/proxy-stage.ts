// Scripted nodes, the sets over them and the rpc endpoint in front, in process.
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { type NodeSection, type SetSection, upstreamsSection } from '../../src/upstream/config.ts'
import { Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import { declareProxyMeters, type ProxyTally } from '../../src/upstream/proxy/method-policy.ts'
import { RpcProxy, type RpcProxyDeps } from '../../src/upstream/proxy/rpc-proxy.ts'
import { Bundle } from './bundle.ts'
import { ScriptedNode } from './scripted-node.ts'
import { until } from './until.ts'

export interface SetOptions extends Partial<Omit<SetSection, 'nodes'>> {
  /** How many scripted nodes, or addresses of others. */
  readonly nodes: number | readonly string[]
  readonly each?: Partial<NodeSection>
}

export interface Told {
  readonly status: number
  readonly source: string | null
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at whatever came
  readonly json: any
}

export class ProxyStage {
  readonly nodes: Readonly<Record<string, readonly ScriptedNode[]>>
  readonly upstreams: Upstreams
  readonly tally: ProxyTally
  readonly bundle: Bundle
  readonly token: string
  readonly port: number

  private constructor(parts: {
    nodes: Record<string, ScriptedNode[]>
    upstreams: Upstreams
    tally: ProxyTally
    bundle: Bundle
    port: number
  }) {
    this.nodes = parts.nodes
    this.upstreams = parts.upstreams
    this.tally = parts.tally
    this.bundle = parts.bundle
    this.port = parts.port
    this.token = this.bundle.issue().token
  }

  /** Everybody is on the set `default`, when it is among them. */
  static async start(
    sets: Readonly<Record<string, SetOptions>>,
    answersOf: RpcProxyDeps['answersOf'] = () => null,
    clock: Clock = systemClock,
  ): Promise<ProxyStage> {
    const nodes: Record<string, ScriptedNode[]> = {}
    const sections: Record<string, SetSection> = {}
    for (const [name, { nodes: wanted, each, ...changes }] of Object.entries(sets)) {
      nodes[name] = []
      const urls: string[] = []
      if (typeof wanted !== 'number') urls.push(...wanted)
      else
        for (let number = 1; number <= wanted; number++) {
          const node = await new ScriptedNode(`${name}/${number}`).listen()
          nodes[name].push(node)
          urls.push(node.url)
        }
      const list = urls.map((rpc) => ({ ...initialNode, ...each, rpc }))
      sections[name] = { ...initialSet, ...changes, nodes: list }
    }
    const bundle = new Bundle()
    const upstreams = new Upstreams(sections, { clock, log: silentLog })
    await upstreams.start()
    const tally = declareProxyMeters(bundle.meters)
    const proxy = new RpcProxy({ upstreams, tally, version: '9.9.9', clock, answersOf })
    const { port } = await bundle.openRpc({ proxy, health: () => proxy.health() })
    return new ProxyStage({ nodes, upstreams, tally, bundle, port })
  }

  /** A node of the set `default`, from 1. */
  node(number = 1): ScriptedNode {
    return this.nodes.default![number - 1]!
  }

  async untilState(state: string, set = 'default', number = 1): Promise<void> {
    const node = this.upstreams.set(set)!.nodes[number - 1]!
    await until(() => node.state === state, `${set}/${number} ${state}`)
  }

  async call(method: string, params: string, token = this.token): Promise<Told> {
    return this.post(`{"jsonrpc":"2.0","id":"mine","method":"${method}","params":${params}}`, token)
  }

  async post(body: string, token = this.token): Promise<Told> {
    const response = await fetch(`http://127.0.0.1:${this.port}/`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': token },
      body,
    })
    const text = await response.text()
    const { status, headers } = response
    const source = headers.get('x-sluice-source')
    return { status, source, text, json: text === '' ? null : JSON.parse(text) }
  }

  async stop(): Promise<void> {
    await this.bundle.dispose()
    await this.upstreams.stop()
    for (const list of Object.values(this.nodes)) for (const node of list) await node.close()
  }
}

const setFields = upstreamsSection.of.fields
const initialSet = { ...(initialsOf(setFields) as SetSection), nodes: [] }
const initialNode = initialsOf(setFields.nodes.of.fields) as NodeSection

function initialsOf(fields: Readonly<Record<string, object>>): object {
  return Object.fromEntries(
    Object.entries(fields).map(([key, field]) => [key, 'initial' in field ? field.initial : null]),
  )
}
