// The live page in a real browser, beside a page that draws on every frame of the stream.
// Thread: main of the bench process; the server and Chromium are processes of their own.
// Figures are blocks per second of the renderer's processor time; the heap is in the evidence.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Browser, type CDPSession, chromium, type Page } from 'playwright-core'
import { until } from '../../test/testkit/until.ts'
import type { Bench, Contender, Measurement } from '../lib/bench.ts'
import { startWholeServer, type WholeServer } from '../lib/whole-server.ts'

const executablePath = '/usr/bin/chromium'
const blockMs = [400, 20] as const
const settleMs = 5_000
const blockMsMax = 60_000
/** The page shows what the metrics service has, which needs no chain. */
const disabled = ['rpc', 'websocket', 'grpc', 'tpu', 'shredstream', 'indexer'].map(
  (name) => `--${name}.enabled=false`,
)

type Kind = 'every frame' | 'live page'

const contenders = blockMs.flatMap((everyMs) =>
  (['every frame', 'live page'] as const).map((kind) => contender(kind, everyMs)),
)

export const bench: Bench = {
  name: 'live-page',
  question: 'What does the live page cost a browser, at 2.5 and 50 blocks/s?',
  cores: 2,
  seconds: 10,
  baseline: contenders[0]!,
  candidates: contenders.slice(1),
  smoke: (['every frame', 'live page'] as const).map((kind) => nameOf(kind, blockMs[0])),
  verify: ({ evidence }) =>
    Number(evidence?.blocks) > 0 ? undefined : `no block arrived: ${JSON.stringify(evidence)}`,
}

function nameOf(kind: Kind, everyMs: number): string {
  return `${kind}, ${1000 / everyMs} blocks/s`
}

/** One browser and one server per rate for all contenders; one page at a time is open. */
const shared = {
  browser: null as Promise<Browser> | null,
  servers: new Map<number, Promise<WholeServer>>(),
  users: 0,
}

function contender(kind: Kind, everyMs: number): Contender {
  return {
    name: nameOf(kind, everyMs),
    missing: ({ target }) => {
      if (target !== undefined) return 'measures a server of its own'
      return existsSync(executablePath) ? undefined : `${executablePath} is not installed`
    },
    async prepare() {
      shared.users++
      shared.browser ??= chromium.launch({ executablePath, args: ['--no-sandbox'] })
      const flags = [...disabled, `--metrics.generator.blockMs=${everyMs}`]
      const server = shared.servers.get(everyMs) ?? startWholeServer(flags, { subscription: null })
      shared.servers.set(everyMs, server)
      await Promise.all([shared.browser, server])
    },
    async run({ seconds, smoke }) {
      const [browser, server] = [await shared.browser!, await shared.servers.get(everyMs)!]
      const page = await browser.newPage()
      const origin = `http://127.0.0.1:${server.doors.metrics!.port}`
      await page.goto(origin + (kind === 'live page' ? '/live' : '/v1/status'))
      if (kind === 'every frame') await drawEveryFrame(page)
      if (smoke !== true) await sleep(settleMs)
      await until(async () => (await blocksOf(page)) > 0, 'the first block', blockMsMax)
      const measurement = await measure(browser, page, seconds)
      await page.close()
      return measurement
    },
    async close() {
      if (--shared.users > 0) return
      await (await shared.browser)?.close()
      for (const server of shared.servers.values()) await (await server).stop()
    },
  }
}

/** The plain way: a listener that parses a frame, sets texts and draws all charts anew. */
async function drawEveryFrame(page: Page): Promise<void> {
  const library = createRequire(import.meta.url).resolve('uplot/dist/uPlot.iife.min.js')
  await page.evaluate('document.body.replaceChildren()')
  await page.evaluate(readFileSync(library, 'utf8').replace('var uPlot', 'globalThis.uPlot'))
  await page.evaluate(plainPage)
}

const plainPage = `
  const holder = document.body.appendChild(document.createElement('div'))
  const text = document.body.appendChild(document.createElement('pre'))
  const names = ['contended_slot_count', 'parallel_efficiency_pct', 'critical_path_txn_count']
  const data = [[], [], [], []]
  const charts = names.map((name) => new uPlot(
    { width: 900, height: 130, scales: { x: { time: false } }, series: [{}, { label: name, stroke: 'black' }] },
    [[], []], holder))
  const socket = new WebSocket(location.origin.replace('http', 'ws') + '/v1/ws')
  globalThis.blocks = 0
  socket.onmessage = (event) => {
    const frame = JSON.parse(event.data)
    if (frame.ContentionData) {
      blocks++
      data[0].push(frame.ContentionData.block_number)
      names.forEach((name, at) => data[at + 1].push(frame.ContentionData[name]))
      for (const column of data) if (column.length > 150) column.shift()
    }
    text.textContent = JSON.stringify(frame, null, 1)
    charts.forEach((chart, at) => chart.setData([data[0], data[at + 1]]))
  }`

async function measure(browser: Browser, page: Page, seconds: number): Promise<Measurement> {
  const session = await browser.newBrowserCDPSession()
  const inPage = await page.context().newCDPSession(page)
  const before = { cpu: await rendererSeconds(session), blocks: await blocksOf(page) }
  await sleep(seconds * 1000)
  await until(async () => (await blocksOf(page)) > before.blocks, 'a block', blockMsMax)
  const cpu = (await rendererSeconds(session)) - before.cpu
  const blocks = (await blocksOf(page)) - before.blocks
  await inPage.send('HeapProfiler.collectGarbage')
  const { usedSize } = await inPage.send('Runtime.getHeapUsage')
  const evidence = {
    blocks,
    cpuPercent: Math.round((cpu / seconds) * 1000) / 10,
    heapMb: Math.round(usedSize / 1e5) / 10,
  }
  console.log(JSON.stringify(evidence))
  return { opsPerSecond: blocks / cpu, bytesPerOp: usedSize, evidence }
}

async function rendererSeconds(session: CDPSession): Promise<number> {
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  const renderers = processInfo.filter(({ type }) => type === 'renderer')
  return renderers.reduce((sum, { cpuTime }) => sum + cpuTime, 0)
}

async function blocksOf(page: Page): Promise<number> {
  const own = `globalThis.blocks ?? Number(
    document.getElementById('bar-block').textContent.replaceAll(',', ''))`
  return Number(await page.evaluate(own))
}
