// Clients that lose their connection again and again and continue at another gateway, beside one
// that reads the node itself: nothing is lost and nothing comes twice. The gateways keep 8 slots in
// memory and the rest on disk; one of them is stopped and started anew.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { PubsubClient } from '../../src/client/node.ts'
import { NodeSocket } from '../../src/client/node-socket.ts'
import { startDevnode } from '../testkit/devnode.ts'
import { nodeOf, PubsubStage } from '../testkit/pubsub-stage.ts'
import { SolanaNode } from '../testkit/solana-node.ts'
import { Client } from '../testkit/subscription-stage.ts'
import { until } from '../testkit/until.ts'

let folder: string
let node: SolanaNode
let gateways: PubsubStage[]
let tokens: string[]

const start = (name: string) =>
  PubsubStage.start({ default: [nodeOf(node)] }, { logFolder: join(folder, name) })

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'pubsub-resume-'))
  node = await SolanaNode.of(await startDevnode({ flags: ['--traffic=40'] }))
  gateways = [await start('a'), await start('b')]
  tokens = gateways.map(({ bundle }) => bundle.issue().token)
})

afterAll(async () => {
  for (const gateway of gateways ?? []) await gateway.stop()
  await node?.dispose()
  rmSync(folder, { recursive: true })
})

/** What identifies a notification: a signature, an account in a slot, a slot. */
// biome-ignore lint/suspicious/noExplicitAny: results of every kind.
function nameOf(result: any): string {
  if (typeof result !== 'object') return String(result)
  const { context, value } = result
  return value === undefined
    ? `${result.slot} ${result.parent} ${result.signature ?? ''}`
    : `${context.slot} ${value.signature ?? value.pubkey ?? ''}`
}

/** Connections in turn to each gateway, which the test cuts. */
function wandering() {
  const open: NodeSocket[] = []
  const client = new PubsubClient({
    url: ['0', '1'],
    backoffMs: { first: 1, most: 20 },
    open: (name) => {
      const at = Number(name)
      const socket = new NodeSocket(gateways[at]!.url, { 'x-token': tokens[at]! })
      open.push(socket)
      return socket
    },
  })
  return { client, cut: () => open.at(-1)?.close() }
}

const subscriptions = (['processed', 'confirmed', 'finalized'] as const).flatMap((commitment) => [
  { topic: 'logs' as const, params: ['all', { commitment }] },
  { topic: 'program' as const, params: ['1'.repeat(32), { commitment, encoding: 'base64' }] },
])
const all = [
  ...subscriptions,
  { topic: 'root' as const, params: [] },
  { topic: 'slot' as const, params: [] },
  {
    topic: 'block' as const,
    params: ['all', { commitment: 'confirmed', transactionDetails: 'none' }],
  },
]

it('loses nothing and repeats nothing over gateways and restarts', async () => {
  const socket = new WebSocket(node.server.url('websocket'), { headers: { 'x-token': node.token } })
  socket.on('error', () => {})
  await until(() => socket.readyState === WebSocket.OPEN, 'the node')
  const oracle = new Client(socket)
  const { client, cut } = wandering()
  const gaps: unknown[] = []
  const seen = await Promise.all(
    all.map(async ({ topic, params }) => {
      const results: unknown[] = []
      const take = (result: unknown) => void results.push(result)
      const subscription = client.subscribe(topic, params, take, {
        onGap: (error) => gaps.push(error),
        onError: (error) => gaps.push(error),
      })
      return { topic, results, subscription, id: await oracle.subscribe(topic, ...params) }
    }),
  )
  await until(() => seen.every(({ results }) => results.length > 3), 'a start')
  const slot = () => gateways[1]!.streams.of('default')!.slot(0)
  for (let cuts = 0; cuts < 10; cuts++) {
    const before = slot()
    await until(() => slot() > before + (cuts % 3), 'further slots')
    if (cuts === 4) {
      await gateways[0]!.stop()
      const at = slot()
      await until(() => slot() > at + 12, 'more slots than memory has')
      gateways[0] = await start('a')
      tokens[0] = gateways[0].bundle.issue().token
    }
    cut()
  }
  const last = slot()
  await until(() => seen.every(({ results }) => slotIn(results.at(-1)) > last), 'the rest')
  expect(gaps).toEqual([])
  for (const { topic, results, id } of seen) {
    const expected = oracle.of(id).map(nameOf)
    const names = results.map(nameOf)
    const from = expected.indexOf(names[0]!)
    expect(from, topic).toBeGreaterThanOrEqual(0)
    const [own, theirs] = [new Set(names), new Set(expected)]
    const isDue = (name: string) => slotOf(name) <= last
    expect(expected.slice(from).filter((name) => isDue(name) && !own.has(name))).toEqual([])
    expect(names.filter((name) => isDue(name) && !theirs.has(name))).toEqual([])
    expect(own.size, topic).toBe(names.length)
  }
  client.close()
  socket.terminate()
})

// biome-ignore lint/suspicious/noExplicitAny: results of every kind.
function slotIn(result: any): number {
  return typeof result === 'object' ? (result?.context ?? result).slot : Number(result)
}

function slotOf(name: string): number {
  return Number(name.split(' ')[0])
}
