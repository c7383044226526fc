// Tests the live page over a long time and against the whole server: kill -9 and restart under an
// open page, eleven tabs, a source that falls silent, and a heap that does not grow.
import type { Browser, CDPSession } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { launchBrowser, noBrowser, skipped } from '../testkit/browser.ts'
import { HandClock } from '../testkit/fake-execution.ts'
import { openLive } from '../testkit/live-service.ts'
import { openTab, type Tab } from '../testkit/live-tab.ts'
import { startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

const isSlice = process.env.SLUICE_LONG_SLICE === '1'
/** Errors that a closed or refusing server puts into the console. */
const refusals = /Failed to load resource|WebSocket connection|ERR_/
let browser: Browser

beforeAll(async () => {
  if (noBrowser === null) browser = await launchBrowser()
})
afterAll(() => browser?.close())

const number = async (tab: Tab, selector: string) =>
  Number((await tab.text(selector)).replaceAll(',', ''))

describe.skipIf(noBrowser !== null)(`the live page${skipped}`, () => {
  test('goes on after kill -9 of the server, with no block twice', async () => {
    const first = await startServer()
    const port = first.doors.metrics!.port
    const tab = await openTab(browser, first.url('metrics'), { expected: refusals })
    await tab.reaches('live')
    const opened = await number(tab, '#bar-block')
    // Twenty steps back are to cross the restart.
    const more = async (than: number) => (await number(tab, '#bar-block')) > than + 12
    await until(() => more(opened), 'blocks before the kill')
    const before = await number(tab, '#bar-block')
    await first.stop('SIGKILL')
    await tab.reaches('offline')
    const second = await startServer({ data: first.data, flags: [`--metrics.port=${port}`] })
    await tab.page.getByText('server restarted').first().waitFor()
    await tab.reaches('live')
    await until(() => more(before), 'blocks after the restart')
    await tab.page.keyboard.press('ArrowLeft')
    const seen: number[] = []
    for (let step = 0; step < 20; step++) {
      const shown = await number(tab, '#block-number')
      seen.push(shown)
      await tab.page.keyboard.press('ArrowLeft')
      await until(async () => (await number(tab, '#block-number')) !== shown, 'the block before')
    }
    expect(seen).toEqual([...new Set(seen)].sort((a, b) => b - a))
    expect(await tab.close()).toEqual([])
    await second.dispose()
  })

  test('polls in the eleventh tab of an address', async () => {
    const live = await openLive()
    live.run(400)
    const others: { close(): unknown }[] = []
    for (let opened = 0; opened < 10; opened++) {
      // Ten more tabs take their time; the server counts sockets.
      const other = isSlice
        ? new WebSocket(`${live.ws}/v1/ws`)
        : await openTab(browser, live.origin)
      others.push(other)
    }
    await until(() => clientsOf(live.origin).then((count) => count === 10), 'ten streams')
    const last = await openTab(browser, live.origin, { expected: refusals })
    await last.reaches('refused')
    const before = await number(last, '#bar-block')
    await until(async () => (await number(last, '#bar-block')) > before, 'a polled block')
    await others.pop()!.close()
    await last.reaches('live')
    expect(await last.close()).toEqual([])
    for (const other of others) await other.close()
    await live.close()
  })

  test('explains an endpoint that closed for silence, and connects again by itself', async () => {
    const clock = new HandClock()
    const live = await openLive({ clock })
    const tab = await openTab(browser, live.origin, { expected: refusals })
    await tab.reaches('live', 'quiet')
    await until(async () => {
      clock.advance(1_000)
      return (await tab.state()) === 'offline'
    }, 'the endpoint to close')
    expect(await tab.text('#banner')).toContain('its source had no event for 30 s')
    live.chain.add(3)
    await tab.reaches('live', 'quiet')
    expect(await tab.close()).toEqual([])
    await live.close()
  })

  test('has a flat heap over many blocks', async () => {
    const blocks = isSlice ? 5_400 : 50_000
    const live = await openLive()
    const tab = await openTab(browser, live.origin)
    await tab.reaches('live', 'quiet')
    const session = await tab.page.context().newCDPSession(tab.page)
    const heaps: number[] = []
    for (let made = 0; made < blocks; made += 200) {
      live.chain.add(200)
      const newest = live.chain.newest
      await until(async () => (await number(tab, '#block-number')) === newest, `block ${newest}`)
      if (made >= 3_000 && made % 1_000 === 0) heaps.push(await heapOf(session))
    }
    console.log(`heap after collection, MB: ${heaps.map((heap) => heap.toFixed(1)).join(' ')}`)
    expect(Math.max(...heaps)).toBeLessThan(20)
    // The least of a few: a collection may leave a frame that is being drawn.
    expect(Math.min(...heaps.slice(-3)) - Math.min(...heaps.slice(0, 3))).toBeLessThan(2)
    expect(await tab.page.evaluate('document.querySelectorAll("*").length')).toBeLessThan(400)
    expect(await tab.close()).toEqual([])
    await live.close()
  })
})

async function clientsOf(origin: string): Promise<number> {
  const response = await fetch(`${origin}/v1/status`)
  return ((await response.json()) as { connected_clients: number }).connected_clients
}

async function heapOf(session: CDPSession): Promise<number> {
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  return usedSize / 1e6
}
